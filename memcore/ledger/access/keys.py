"""Keys of callers: each belongs to one company, and says which agents and which verbs it is for."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, TypeAdapter, field_serializer
from sqlalchemy import func, insert, select

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.database import Records, checked_key
from memcore.ledger.tables import api_keys
from memcore.models.base import Frozen, NotBlankStr, naming_fields
from memcore.models.memory import AgentId, BoundedTime, Key
from memcore.models.origin import Authority, Channel, Writer

#: What a token begins with, so that scanners for leaked secrets find it.
PREFIX = "mt"

#: Random bytes of a key's id and of its secret.
_ID_BYTES, _SECRET_BYTES = 8, 32

#: The form of a key's id, and of a token; nothing of another form is looked for.
_KEY_ID = re.compile(f"[0-9a-f]{{{2 * _ID_BYTES}}}")
_TOKEN = re.compile(f"{PREFIX}_({_KEY_ID.pattern})_([0-9a-f]{{{2 * _SECRET_BYTES}}})")

#: Key of the PostgreSQL advisory lock that lets one process make a key at a time; any fixed number of our own.
_ADVISORY_KEY = 7_164_302_956

#: Most agents of one key.
MAX_AGENTS = 256

_NAME: TypeAdapter[str] = TypeAdapter(Key)
_CHANNEL: TypeAdapter[Channel] = TypeAdapter(Channel)
_AUTHORITY: TypeAdapter[Authority] = TypeAdapter(Authority)
_AGENTS: TypeAdapter[frozenset[str]] = TypeAdapter(Annotated[frozenset[AgentId], Field(max_length=MAX_AGENTS)])


class Verb(StrEnum):
    """What a key may be used for; one verb includes no other."""

    #: Search, get and list.
    READ = "read"
    #: Store, change and forget memories; send turns and traces.
    WRITE = "write"
    #: Runs: plan, start, undo, release.
    MAINTAIN = "maintain"
    #: Decide proposals.
    APPROVE = "approve"
    #: Agents, fine-tune runs, checkpoints and everything else.
    ADMIN = "admin"


class ApiKey(Frozen):
    """A key as people see it: never its secret, never the hash.

    Attributes:
        name: who uses it; the audit names it as the actor.
        agents: the agents that it is for; None for all of its company.
        channel: the highest channel that it may claim for what it stores; None where nobody said: ``operator`` with
            the verb ``admin``, else ``agent``.
        min_authority: the least authority of what it is shown, whatever it asks for; None for the usual.
    """

    key_id: NotBlankStr
    company: NotBlankStr
    name: NotBlankStr
    agents: frozenset[str] | None
    verbs: frozenset[Verb]
    created_at: BoundedTime
    revoked_at: BoundedTime | None = None
    last_used_at: BoundedTime | None = None
    channel: Channel | None = None
    min_authority: Authority | None = None

    @property
    def writer(self) -> Writer:
        """Who writes with it."""
        usual = Channel.OPERATOR if Verb.ADMIN in self.verbs else Channel.AGENT
        return Writer(principal=self.key_id, limit=self.channel or usual, least=self.min_authority)

    @field_serializer("agents", "verbs")
    def _sorted(self, names: frozenset[str] | None) -> list[str] | None:
        return None if names is None else sorted(names)


class NewApiKey(Frozen):
    """A key that was just made, and the token that its caller sends; the token is never shown again."""

    key: ApiKey
    token: str = Field(repr=False)


class ApiKeys(Records[ApiKey]):
    """The table of keys."""

    _table = api_keys
    _model = ApiKey

    def create(
        self,
        company: str,
        *,
        name: str,
        verbs: Collection[Verb | str],
        agents: Collection[str] | None = None,
        channel: Channel | str | None = None,
        min_authority: Authority | str | None = None,
    ) -> NewApiKey:
        """Make a key of a company, and return it with its token.

        Raises MemoryInputError when the name, an agent or a verb is not valid, there is no verb, or a key of that name
        is valid: the audit and the lists tell keys apart by their names.
        """
        company = checked_key("company", company)
        with naming_fields(name="name"):
            name = _NAME.validate_python(name)
        with naming_fields(name="agents"):
            named = None if agents is None else _AGENTS.validate_python(frozenset(agents))
        with naming_fields(name="channel"):
            claims = None if channel is None else _CHANNEL.validate_python(channel)
        with naming_fields(name="min_authority"):
            least = None if min_authority is None else _AUTHORITY.validate_python(min_authority)
        if claims is Channel.UNKNOWN:
            raise MemoryInputError("channel", "must not be unknown: that is what older releases stored")
        if named is not None and not named:
            raise MemoryInputError("agents", "must name an agent; leave it out for all agents of the company")
        key_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES)
        made = ApiKey(
            key_id=key_id,
            company=company,
            name=name,
            agents=named,
            verbs=checked_verbs(verbs),
            created_at=self._clock(),
            channel=claims,
            min_authority=least,
        )
        row = {**made.model_dump(), "verbs": sorted(made.verbs), "hash": _hash(secret)}
        table = api_keys.c
        same = select(table.key_id).where(table.company == company, table.name == name, table.revoked_at.is_(None))
        with self._database.write() as connection:
            # No unique index: keys of older releases may have one name, and stay valid.
            if self._database.dialect == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_KEY)))
            if (other := connection.execute(same).scalar()) is not None:
                raise MemoryInputError("name", f"is that of key {other}: revoke it first, or take another name")
            connection.execute(insert(api_keys).values(row))
        return NewApiKey(key=made, token=f"{PREFIX}_{key_id}_{secret}")

    def list(self, company: str) -> tuple[ApiKey, ...]:
        """Return a company's keys, the oldest first, those that were revoked too."""
        table = api_keys.c
        return self._all(select(api_keys).where(table.company == company).order_by(table.created_at, table.key_id))

    def revoke(self, company: str, key_id: str) -> ApiKey:
        """Make a company's key invalid for good, and return it; MemoryNotFoundError when it has none with this id."""
        table, now = api_keys.c, self._clock()
        mine = (table.company == company) & (table.key_id == key_id)
        self._update(mine & table.revoked_at.is_(None), {"revoked_at": now})
        found = self._one(select(api_keys).where(mine))
        if found is None:
            raise MemoryNotFoundError("key_id: names no key of the company; see `memtend keys list`")
        return found

    def of_token(self, token: str) -> ApiKey | None:
        """Return the key of a token that is valid now; None for any other text.

        The secret is compared in constant time, and an unknown id takes as long as a wrong secret.
        """
        key_id, secret = split_token(token)
        row = self._database.row(select(api_keys).where(api_keys.c.key_id == key_id)) if key_id else None
        expected = _hash("") if row is None else str(row["hash"])
        is_right = hmac.compare_digest(expected, _hash(secret))
        if row is None or not is_right or row["revoked_at"] is not None:
            return None
        return self._record(row)

    def with_hash(self, key_id: str) -> tuple[ApiKey, str] | None:
        """Return a key that is valid now, and the hash of its secret, which signs sessions; None for any other id."""
        is_one = _KEY_ID.fullmatch(key_id) is not None
        row = self._database.row(select(api_keys).where(api_keys.c.key_id == key_id)) if is_one else None
        if row is None or row["revoked_at"] is not None:
            return None
        return self._record(row), str(row["hash"])

    def note_use(self, key_id: str, *, at: datetime) -> None:
        """Save when a key was last used."""
        self._update(api_keys.c.key_id == key_id, {"last_used_at": at})


def checked_verbs(names: Collection[Verb | str]) -> frozenset[Verb]:
    """Return the verbs of these names; MemoryInputError when one does not exist, or there is none."""
    wrong = sorted(set(map(str, names)) - set(Verb))
    if wrong or not names:
        problem = f"{wrong[0]!r} is not one of {', '.join(Verb)}" if wrong else "must not be empty"
        raise MemoryInputError("verbs", problem)
    return frozenset(map(Verb, names))


def split_token(token: str) -> tuple[str, str]:
    """Return a token's key id and secret; two empty texts when it has another form."""
    found = _TOKEN.fullmatch(token)
    return ("", "") if found is None else (found[1], found[2])


def _hash(secret: str) -> str:
    # The secret has 256 random bits: a slow hash, as passwords need, would protect nothing more.
    return hashlib.sha256(secret.encode()).hexdigest()
