"""Settings: addresses, keys, the data folder, the stack file. The policy decides everything else."""

import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator

from memcore.config import home_folder
from memcore.config.errors import nearest, validation_message
from memcore.config.llm import LLMConfig
from memcore.config.urls import (
    KEEPS_NO_RESULTS,
    Address,
    Endpoint,
    HostNames,
    HttpEndpoint,
    LedgerUrls,
    SecretHttpEndpoint,
    masked,
    scheme_of,
)
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.models.base import Frozen, NotBlankStr
from memcore.telemetry.events import Event

#: Largest stack file, in bytes; ours has under 2 KiB, so a larger file is not ours.
MAX_STACK_BYTES = 65_536

#: Read and write for the owner, nothing for anybody else: the file holds passwords.
OWNER_ONLY = 0o600


def stack_path(home: Path) -> Path:
    """Return where the embedded stack of a data folder writes its file."""
    return home / "run" / "stack.json"


class NothingRunsError(MemoryConfigError):
    """No embedded stack runs in the data folder, and no servers are named."""


def read_stack(home: Path) -> dict[str, Any] | None:
    """Return what the file holds, or None when there is no file and so no embedded stack.

    Raises:
        MemoryConfigError: others may read or write the file, it belongs to somebody else, or it is no JSON object.
    """
    path = stack_path(home)
    try:
        # One handle for the check and the read: a file swapped between the two would escape the check.
        with opened_regular(path) as file:
            _refuse_shared(path, os.fstat(file.fileno()))
            data = file.read(MAX_STACK_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemoryConfigError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from None
    try:
        content = json.loads(data) if len(data) <= MAX_STACK_BYTES else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise MemoryConfigError(f"{path}: should be one JSON object; stop the stack and start it again")
    return content


@contextmanager
def opened_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read; one that is no regular file is refused at once: a pipe would block for ever.

    Raises:
        MemoryConfigError: it is a folder, a pipe or a device.
        OSError: it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise MemoryConfigError(f"{path}: is not a regular file")
    with os.fdopen(handle, "rb") as file:
        yield file


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone, so that readers see the old one or the new one, whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    # O_EXCL: a link in the draft's place would send the passwords elsewhere.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _refuse_shared(path: Path, status: os.stat_result) -> None:
    if os.name != "posix":
        return
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise MemoryConfigError(f"{path}: must be readable by its owner alone; set its mode to 600")
    # Root may serve another user's stack; anybody else would take an outsider's addresses for their own.
    if os.geteuid() not in {status.st_uid, 0}:
        raise MemoryConfigError(f"{path}: belongs to another user")


#: What the names of memtend's environment variables begin with.
PREFIX = "MEMTEND_"

#: Variables that benchmarks and `memtend test run` read, and the beginnings of those that tests read, and that a worker
#: hands on to the stage runner: no settings, and no cause for a warning.
FOREIGN = (
    *("MEMTEND_LOCOMO_DIR", "MEMTEND_REALTALK_DIR", "MEMTEND_KEY"),
    *("MEMTEND_TEST_", "MEMTEND_FINE_TUNE_HEALTH_"),
)

#: Without these nothing can be reached; given one, none is taken from the embedded stack's file.
_ADDRESSES = ("broker_url", "database_url", "qdrant_url")

#: Seconds between two ticks, as between sweeps: workers wake once for both. An hourly agent is late by 0.4 % at most.
TICK_SECONDS = 15.0

#: Seconds between two sweeps for lost runs; with a lease of 45 s a dead worker frees its agent within a minute.
SWEEP_SECONDS = 15.0

#: Longest of both pauses, in seconds: with a longer one an hourly agent would miss its hour.
LONGEST_PAUSE_SECONDS = 3600.0

_log = logging.getLogger(__name__)

# It becomes part of collection names, so it must be a plain word to every vector store.
_COMPANY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_COMPANY_RULE = "1 to 63 letters, digits, - or _, beginning with a letter or digit"


def checked_company(name: str) -> str:
    """Return a company's name, which is safe in names of collections and files; else MemoryInputError."""
    if not _COMPANY.fullmatch(name):
        raise MemoryInputError("company", f"must be {_COMPANY_RULE}")
    return name


class Settings(Frozen):
    """The addresses of one installation; the repr shows no password.

    Attributes:
        broker_url: the queue: Redis, Valkey or RabbitMQ.
        broker_may_lose: allow a Redis or Valkey that evicts keys or keeps no append-only file; what it loses is gone.
        result_url: where results go; RabbitMQ keeps no results and needs another server here.
        database_url: the ledger, as a SQLAlchemy URL.
        journal_url: the journal of what maintenance removed.
        history_url: mem0's history.
        qdrant_url: the vector store.
        qdrant_api_key: the key of the vector store.
        flower_url: the address of Flower, as ``http://USER:PASSWORD@HOST:PORT``; with it, workers report their tasks.
        company: the company whose memories these are; part of collection names.
        embedder: the embedder, where the policy's ``memory.embedder.provider`` names none.
        embedder_url: the base address of the embedder's server, where it is not at its usual place.
        embedder_api_key: the key of the embedder's server.
        embedder_has_gpu: whether that server has a GPU; chooses its model where the policy names none.
        llm_url: the base address of the server of language models, such as ``https://HOST/v1``; None asks no model.
        llm_api_key: the key of that server.
        llm_local: the name of its model, where this machine's processors serve it, as ``memtend up --local-llm`` does:
            for what ``memory.llm`` leaves open, that model, a context of 8,192 tokens and 300 seconds are taken.
        approvals_webhook: an address that receives each proposal that waits for a person, by POST: id, action, title
            and risk.
        webhook_private_hosts: hosts, with commas between, that webhooks may reach at private addresses, and over http
            where they are this machine; no other host's address may be private.
        fine_tune_image: the image of the stage runner; with it, each stage runs in a container, whatever
            ``memory.fine_tune`` says of backend and image.
        policy_path: the policy file; None takes the defaults, which are those that ``memtend up`` writes.
        home: the data folder of this machine.
        tick_seconds: the pause between two searches for agents that are due.
        sweep_seconds: the pause between two searches for lost runs.
        log_format: ``text`` for people, ``json`` for machines.
        log_level: the least level that is logged.
        traces: ``otlp`` sends OpenTelemetry spans as the standard ``OTEL_`` variables say; needs ``memtend[otel]``.
    """

    broker_url: Endpoint
    broker_may_lose: bool = False
    result_url: Endpoint = Field(default_factory=lambda fields: fields["broker_url"], validate_default=True)
    database_url: Endpoint
    journal_url: Endpoint = Field(default_factory=lambda fields: fields["database_url"])
    history_url: Endpoint = Field(default_factory=lambda fields: fields["database_url"])
    qdrant_url: HttpEndpoint
    qdrant_api_key: SecretStr | None = None
    flower_url: HttpEndpoint | None = None
    company: NotBlankStr = "default"
    embedder: NotBlankStr = "static"
    embedder_url: HttpEndpoint | None = None
    embedder_api_key: SecretStr | None = None
    embedder_has_gpu: bool | None = None
    llm_url: HttpEndpoint | None = None
    llm_api_key: SecretStr | None = None
    llm_local: NotBlankStr | None = None
    approvals_webhook: SecretHttpEndpoint | None = None
    webhook_private_hosts: HostNames = ()
    fine_tune_image: NotBlankStr | None = None
    policy_path: Path | None = None
    home: Path
    tick_seconds: float = Field(default=TICK_SECONDS, gt=0.0, le=LONGEST_PAUSE_SECONDS)
    sweep_seconds: float = Field(default=SWEEP_SECONDS, gt=0.0, le=LONGEST_PAUSE_SECONDS)
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    traces: Literal["off", "otlp"] = "off"

    @field_validator("company")
    @classmethod
    def _names_a_collection(cls, company: str) -> str:
        if not _COMPANY.fullmatch(company):
            raise ValueError(f"should be {_COMPANY_RULE}")
        return company

    @field_validator("broker_url", "result_url")
    @classmethod
    def _names_its_master(cls, url: str) -> str:
        if scheme_of(url) == "sentinel" and Address.of(url).options["master_name"] is None:
            raise ValueError("should name the master of its sentinels: sentinel://HOST:26379/0?master_name=NAME")
        return url

    @field_validator("result_url")
    @classmethod
    def _keeps_results(cls, url: str) -> str:
        if scheme_of(url) in KEEPS_NO_RESULTS:
            raise ValueError("RabbitMQ keeps no results: should be redis://HOST or db+postgresql://USER@HOST/NAME")
        return url

    @classmethod
    def load(cls, environ: Mapping[str, str], home: Path | None = None) -> Self:
        """Read the settings of the environment or, without addresses there, of the embedded stack in the data folder.

        An unknown ``MEMTEND_`` variable is logged as a warning, once in a process, and counts as absent.

        Args:
            environ: the process's environment; variables that are empty count as absent.
            home: the data folder; without it MEMTEND_HOME, else ``~/.memtend``.

        Raises:
            MemoryConfigError: a variable is wrong, an address is missing, or no embedded stack runs there.
        """
        given = _given(environ)
        home = home_folder(environ, home)
        named = [name for name in _ADDRESSES if name in given]
        stack = None if len(named) == len(_ADDRESSES) else read_stack(home)
        # A stack may itself use the server that the environment names: that is no second installation.
        if named and not (stack is not None and all(stack.get(name) == given[name].rstrip("/") for name in named)):
            missing = [_variable(name) for name in _ADDRESSES if name not in given]
            if missing:
                raise MemoryConfigError(f"{' and '.join(missing)} must be set too, for {_variable(named[0])} is set")
            return cls._checked({**given, "home": home}, name_of=_variable)
        if stack is None:
            raise NothingRunsError(
                f"nothing runs at {home}: start it with `memtend up`, "
                f"or set {', '.join(map(_variable, _ADDRESSES))} to servers of your own"
            )
        if "llm_url" in given:
            # Another server than the stack's own.
            stack = {name: value for name, value in stack.items() if name != "llm_local"}
        return cls._checked(
            {**stack, **given, "home": home},
            name_of=lambda name: _variable(name) if name in given else f"{stack_path(home)}: {name}",
        )

    def with_models(self, environ: Mapping[str, str]) -> Self:
        """Return these settings with what the environment names of embedder, models, images, webhooks and traces.

        Raises MemoryConfigError when a variable is wrong.
        """
        given = {
            name: value
            for name, value in _given(environ).items()
            if name.startswith(("embedder", "llm_", "approvals_", "webhook_", "fine_tune_", "traces"))
        }
        return self._checked({**dict(self), **given}, name_of=_variable)

    def moved(self, addresses: Mapping[str, str | None]) -> Self:
        """Return these settings with other addresses; MemoryConfigError names the variable of one that is wrong."""
        return self._checked({**dict(self), **addresses}, name_of=_variable)

    def llm(self, config: LLMConfig) -> LLMConfig:
        """Return a policy's ``memory.llm`` as it holds for the server at ``llm_url``."""
        return config.of_local(self.llm_local)

    @property
    def ledger_urls(self) -> LedgerUrls:
        """Return where the ledger and its journal are."""
        return LedgerUrls(ledger=self.database_url, journal=self.journal_url, history=self.history_url)

    @property
    def send_events(self) -> bool:
        """Whether workers report each task: only with Flower, because it more than doubles a task's cost."""
        return self.flower_url is not None

    def save_stack(self) -> Path:
        """Write these settings, passwords included, to the owner-only file that `load` reads; return its path."""
        content = self.with_secrets()
        # Each process says for itself whether it traces: an engine may lack the libraries.
        del content["home"], content["traces"]
        path = stack_path(self.home)
        path.parent.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
        write_private(path, json.dumps(content, indent=2, sort_keys=True))
        return path

    def with_secrets(self) -> dict[str, Any]:
        """Return these settings, passwords included, as JSON takes them; for the owner's files and processes alone."""
        content = self.model_dump(mode="json")
        return content | {name: each.get_secret_value() for name, each in self if isinstance(each, SecretStr)}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show addresses without their passwords."""
        for name, value in super().__repr_args__():
            yield name, masked(value) if name and name.endswith("_url") and isinstance(value, str) else value

    @classmethod
    def _checked(cls, values: Mapping[str, Any], *, name_of: Callable[[str], str]) -> Self:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise MemoryConfigError(validation_message(error, list(cls.model_fields), name_of=name_of)) from None


def _variable(field: str) -> str:
    return PREFIX + field.upper()


@cache
def _warn_once(variable: str) -> None:
    # Not refused: it may be the user's own, or what Kubernetes sets for a service that is called memtend-something.
    meant = nearest(variable, [_variable(field) for field in Settings.model_fields])
    hint = f"; did you mean {meant}?" if meant else ""
    # In the message too: a process that has set up no logs shows nothing else of a record.
    _log.warning(
        "%s: %s: unknown variable%s",
        Event.MEMORY_SETTINGS_UNKNOWN_VARIABLE,
        variable,
        hint,
        extra={"variable": variable},
    )


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    fields = {_variable(field): field for field in Settings.model_fields}
    given: dict[str, str] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(FOREIGN):
            continue
        if variable not in fields:
            _warn_once(variable)
            continue
        # compose.yml passes variables that nobody set as empty text.
        if value:
            given[fields[variable]] = value
    return given
