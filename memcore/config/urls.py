"""URLs of broker, result store, servers and ledger: checked, masked, and as kombu and Celery take them."""

import re
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from memcore.models.base import Frozen, NotBlankStr

#: Brokers that keep no outcomes; with ``rpc://`` an outcome reaches nobody but the process that sent the job.
KEEPS_NO_RESULTS = ("amqp", "amqps", "pyamqp", "rpc")

#: Seconds for which a RabbitMQ that says nothing is waited for, where an answer must come: py-amqp's own is for ever.
AMQP_SECONDS = 10

#: RabbitMQ answers a message only once it is on disk: without it a broken connection would lose jobs silently. With no
#: limit, a connection that died without a word would hold whoever waits for its answer: a worker's event loop, too.
_AMQP = {"confirm_publish": True, "read_timeout": AMQP_SECONDS, "write_timeout": AMQP_SECONDS}

#: A name of a host, or an address of IPv4 or IPv6.
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")

#: Parameters of a ``sentinel://`` URL that kombu and Celery want beside it.
_MASTER, _SENTINEL_PASSWORD = "master_name", "sentinel_password"  # a parameter's name


def sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file; written by hand, a % or ? in its path would name another file."""
    # As SQLAlchemy writes it, without its import.
    return f"sqlite:///{quote(str(file), safe=' +/')}"


class Address(Frozen):
    """What to connect to; the repr does not show the URL, which may carry a password.

    Attributes:
        url: as kombu and Celery take it.
        options: the transport options that go with it.
    """

    url: str = Field(repr=False)
    options: dict[str, Any] = Field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the address of a URL as a person writes it.

        ``sentinel://:PASSWORD@HOST:26379;sentinel://HOST2:26379/0?master_name=NAME`` names any number of sentinels;
        password, database and parameters stand at one of them, and ``sentinel_password`` is the sentinels' own.
        ``rediss://`` checks the server's certificate unless ``ssl_cert_reqs`` says otherwise.
        """
        scheme = scheme_of(url)
        if scheme == "sentinel":
            return cls._of_sentinels(url.split(";"))
        if scheme == "rediss" and "ssl_cert_reqs=" not in url:
            # Celery refuses the URL otherwise, kombu would take it as required.
            return cls(url=f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required")
        if scheme in {"amqp", "amqps", "pyamqp"}:
            return cls(url=url, options=_AMQP)
        if scheme in {"db+postgresql", "db+postgres"}:
            # Celery's default driver is one that memtend does not ship.
            return cls(url=f"db+postgresql+psycopg://{url.partition('://')[2]}")
        return cls(url=url)

    @classmethod
    def _of_sentinels(cls, urls: list[str]) -> Self:
        parts = [urlsplit(one) for one in urls]
        parameters = dict(pair for part in parts for pair in parse_qsl(part.query))
        options: dict[str, Any] = {_MASTER: parameters.pop(_MASTER, None)}
        if _SENTINEL_PASSWORD in parameters:
            options["sentinel_kwargs"] = {"password": parameters.pop(_SENTINEL_PASSWORD)}
        # After a failure kombu goes on with the next sentinel's URL alone: each must say everything.
        user = next((part.netloc.rpartition("@")[0] for part in parts if "@" in part.netloc), "")
        path = next((part.path for part in parts if part.path.strip("/")), "/0")
        query = f"?{urlencode(parameters)}" if parameters else ""
        whole = [
            f"sentinel://{user}{'@' if user else ''}{part.netloc.rpartition('@')[2]}{path}{query}" for part in parts
        ]
        return cls(url=";".join(whole), options=options)

    @property
    def is_redis(self) -> bool:
        """Whether a Redis or Valkey server keeps the queues."""
        return scheme_of(self.url) in {"redis", "rediss", "redis+socket", "rediss+socket", "sentinel"}

    @property
    def is_database(self) -> bool:
        """Whether a database keeps the outcomes."""
        return self.url.startswith("db+")


def scheme_of(url: str) -> str:
    """Return the URL's scheme in lower case."""
    return url.partition("://")[0].lower()


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# Up to the last @, wherever it stands: a password may hold @ and /, and hiding too much is the safe mistake.
_CREDENTIALS = re.compile(r"(?<=://).*@")
_SECRET_PARAMETER = re.compile(r"([?&](?=[^=&?]*(?:password|secret|token|key))[^=&?]*=)[^&#]*", re.IGNORECASE)


def _has_scheme(value: str) -> str:
    if not _SCHEME.match(value):
        raise ValueError("should be a URL such as redis://127.0.0.1:6379/0")
    return value


def _is_http(value: str) -> str:
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("should be an http or https URL")
    return value.rstrip("/")


def _is_secret_http(value: SecretStr) -> SecretStr:
    _is_http(value.get_secret_value())
    return value


#: A URL with a scheme; kombu and SQLAlchemy judge the rest when they connect.
Endpoint = Annotated[NotBlankStr, AfterValidator(_has_scheme)]

#: An http or https URL without a slash at its end.
HttpEndpoint = Annotated[NotBlankStr, AfterValidator(_is_http)]

#: An http or https URL, kept as it is, that is a secret as a whole: of a webhook, often the path alone is the key.
SecretHttpEndpoint = Annotated[SecretStr, AfterValidator(_is_secret_http)]


def _split(value: object) -> object:
    return [part for each in value.split(",") if (part := each.strip())] if isinstance(value, str) else value


def _is_host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError("should be names of hosts, or addresses, with commas between")
    return value.lower()


#: Names of hosts, or addresses; as text, with commas between.
HostNames = Annotated[tuple[Annotated[str, AfterValidator(_is_host)], ...], BeforeValidator(_split)]


def masked(url: str) -> str:
    """Return the URL with user, password and secret parameters replaced by stars."""
    return _SECRET_PARAMETER.sub(r"\1***", _CREDENTIALS.sub("***@", url))


class LedgerUrls(Frozen):
    """SQLAlchemy URLs of the ledger and of its journal; the same PostgreSQL URL twice keeps both in one database.

    The repr shows none, because a URL may carry a password.

    Attributes:
        ledger: companies, agents and runs; ``sqlite:///data/ledger.db`` or ``postgresql://...``.
        journal: entries with their memories in full; a file of its own on SQLite, so that large
            entries never hold up a tick.
        history: mem0's history, whose old rows expire with those of the others; None leaves it alone.
    """

    ledger: NotBlankStr = Field(repr=False)
    journal: NotBlankStr = Field(repr=False)
    history: NotBlankStr | None = Field(default=None, repr=False)
