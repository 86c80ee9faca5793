"""mem0's words for memtend's: whose memory it is, texts to store, and memories, facts and versions as mem0 shows them.

mem0's ``agent_id`` is memtend's agent. Its user is a namespace of that agent, ``user:NAME``, so that maintenance never
merges what two people said; a run without a user is ``session:NAME``. The ids stand in the attribute ``mem0`` too, and
metadata beside it, as attributes: the same text with other metadata, or in another run, is a memory of its own.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from memcore.errors import MemoryInputError
from memcore.models.conversation import SESSION, USER, Fact, FactState, Owner, ProfileRule
from memcore.models.memory import LATEST, MemoryEntry
from ops.http.mem0.models import AddBody, Identified, Said

#: The attribute that holds mem0's own fields; metadata of this name, or of one that is no attribute's, is inside it.
OWN = "mem0"

#: Where metadata stands that cannot be an attribute of its own.
_METADATA = "metadata"

_ATTRIBUTE = re.compile(r"[A-Za-z0-9_-]{1,64}")

#: Roles whose messages are no memories: instructions, and what tools say.
_PASSED_OVER = frozenset({"system", "developer", "tool"})

#: The namespace of memories of nobody in particular.
DEFAULT_NAMESPACE = "default"

#: The session of a conversation that named none, as memtend calls it.
_OF_A_DAY = re.compile(r"day-\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose a memory is, as mem0 says it."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None

    @classmethod
    def of(cls, body: Identified) -> "Identity":
        """Return who a body names beside its filters."""
        return cls(user_id=body.user_id, agent_id=body.agent_id, app_id=body.app_id, run_id=body.run_id)

    @property
    def namespace(self) -> str:
        """The namespace of its memories."""
        if self.user_id is not None:
            return f"{USER}{self.user_id}"
        return DEFAULT_NAMESPACE if self.run_id is None else f"{SESSION}{self.run_id}"

    @property
    def is_known(self) -> bool:
        """Whether it names anybody."""
        return any((self.user_id, self.agent_id, self.app_id, self.run_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A text to store; ``fields`` are those of ``Memory.store`` beside it."""

    content: str
    said: Said
    fields: Mapping[str, Any]


def new_memories(body: AddBody) -> tuple[NewMemory, ...]:
    """Return the texts of a body as memories, one for each message that a person or an agent said.

    Raises MemoryInputError when none has a text.
    """
    identity = Identity.of(body)
    made = tuple(
        _new_memory(said, body, identity) for said in body.messages if said.role not in _PASSED_OVER and said.text
    )
    if not made:
        raise MemoryInputError("messages", "hold no text of a user or an assistant")
    return made


def _new_memory(said: Said, body: AddBody, identity: Identity) -> NewMemory:
    named = {"user_id": identity.user_id, "app_id": identity.app_id, "run_id": identity.run_id}
    own = {**named, "role": said.role, "actor_id": said.name}
    attributes = attributes_of(body.metadata or {}, {name: value for name, value in own.items() if value is not None})
    fields: dict[str, Any] = {
        "namespace": identity.namespace,
        "attributes": attributes,
        "source": OWN,
    }
    if identity.run_id is not None:
        fields["session_id"] = identity.run_id
    if body.expiration_date is not None:
        fields["expires_at"] = expiry_of(body.expiration_date)
    return NewMemory(content=said.text, said=said, fields=fields)


def attributes_of(metadata: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata and mem0's own fields as attributes."""
    plain = {name: value for name, value in metadata.items() if name != OWN and _ATTRIBUTE.fullmatch(name)}
    rest = {name: value for name, value in metadata.items() if name not in plain}
    return {**plain, OWN: {**own, **({_METADATA: rest} if rest else {})}}


def metadata_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as metadata: the reverse of ``attributes_of``."""
    plain = {name: value for name, value in attributes.items() if name != OWN}
    rest = own_of(attributes).get(_METADATA)
    return {**plain, **(rest if isinstance(rest, Mapping) else {})}


def own_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return mem0's own fields of a memory's attributes."""
    own = attributes.get(OWN)
    return own if isinstance(own, Mapping) else {}


def as_attribute(name: str) -> str | None:
    """Return the path of a field of metadata among the attributes; None where no store can narrow by it."""
    return name if name != OWN and _ATTRIBUTE.fullmatch(name) else None


def expiry_of(day: date) -> datetime:
    """Return when a memory expires that is kept up to a day: at the end of it, in UTC. Raises MemoryInputError."""
    if day >= LATEST.date():
        raise MemoryInputError("expiration_date", f"must lie before the year {LATEST.year}")
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def stored_records(stored: Iterable[tuple[str, NewMemory]], *, event: str = "ADD") -> list[dict[str, Any]]:
    """Return what ``add`` answers of memories that were stored, by their ids."""
    return [
        {
            "id": memory_id,
            "memory": each.content,
            "event": event,
            "role": each.said.role,
            "actor_id": each.said.name,
            # Where clients of older releases read the text.
            "data": {"memory": each.content},
        }
        for memory_id, each in stored
    ]


def record_of_entry(entry: MemoryEntry) -> dict[str, Any]:
    """Return a memory as mem0 shows it."""
    own = own_of(entry.attributes)
    subject = entry.namespace
    expires = None if entry.expires_at is None else (entry.expires_at - timedelta(microseconds=1)).date().isoformat()
    return {
        "id": entry.id,
        "memory": entry.content,
        "hash": _hash(entry.content),
        "user_id": own.get("user_id", _after(USER, subject)),
        "agent_id": entry.agent_id,
        "app_id": own.get("app_id"),
        "run_id": own.get("run_id") or entry.session_id or _after(SESSION, subject),
        "actor_id": own.get("actor_id"),
        "role": own.get("role"),
        "metadata": metadata_of(entry.attributes) or None,
        "categories": [entry.category.value, *entry.metadata.tags],
        "expiration_date": expires,
        "created_at": entry.created_at.isoformat(),
        "updated_at": (entry.updated_at or entry.created_at).isoformat(),
    }


def record_of_fact(owner: Owner, kept: Fact | ProfileRule) -> dict[str, Any]:
    """Return what conversation memory keeps of a person as mem0 shows it."""
    is_fact = isinstance(kept, Fact)
    text = said_by(kept)
    user_id = _after(USER, owner.subject)
    run_id = _after(SESSION, owner.subject) or (None if _OF_A_DAY.fullmatch(kept.session_id) else kept.session_id)
    quotes = [kept.evidence_quote] if isinstance(kept, Fact) else list(kept.quotes)
    return {
        "id": kept.fact_id if isinstance(kept, Fact) else kept.rule_id,
        "memory": text,
        "hash": _hash(text),
        "user_id": user_id,
        "agent_id": owner.agent_id,
        "app_id": None,
        "run_id": run_id,
        "actor_id": None,
        "role": "user",
        "metadata": {"kind": "fact" if is_fact else "rule", "quotes": quotes},
        "categories": [kept.category.value if isinstance(kept, Fact) else "procedural"],
        "expiration_date": None,
        "created_at": kept.created_at.isoformat(),
        "updated_at": kept.last_referenced_at.isoformat(),
    }


def said_by(kept: Fact | ProfileRule) -> str:
    """Return what a fact or a rule says, in one sentence."""
    if isinstance(kept, ProfileRule):
        return kept.rule
    return f"{kept.subject} {kept.predicate.replace('_', ' ').lower()} {kept.object}"


def history_of_entry(memory_id: str, versions: Sequence[Any], *, identity: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the versions of a memory, oldest first, as mem0's history."""
    before: str | None = None
    rows = []
    for place, version in enumerate(versions):
        new = None if version.event == "DELETE" else version.content
        rows.append(_row(memory_id, place, version.event, before, new, version.at, identity=identity))
        before = version.content if version.event != "DELETE" else None
    return rows


def history_of_fact(
    owner: Owner, kept: Fact | ProfileRule, successor: Fact | ProfileRule | None
) -> list[dict[str, Any]]:
    """Return the history of a fact: when it was said, and what became of it."""
    record = record_of_fact(owner, kept)
    memory_id, text = record["id"], record["memory"]
    rows = [_row(memory_id, 0, "ADD", None, text, kept.created_at, identity=record)]
    if kept.state is FactState.SUPERSEDED and successor is not None:
        rows.append(_row(memory_id, 1, "UPDATE", text, said_by(successor), kept.changed_at, identity=record))
    elif kept.state is not FactState.ACTIVE:
        rows.append(_row(memory_id, 1, "DELETE", text, None, kept.changed_at, identity=record))
    return rows


def _row(
    memory_id: str,
    place: int,
    event: str,
    old: str | None,
    new: str | None,
    at: datetime,
    *,
    identity: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "id": f"{memory_id}-{place}",
        "memory_id": memory_id,
        "input": [],
        "old_memory": old,
        "new_memory": new,
        "user_id": identity.get("user_id"),
        "agent_id": identity.get("agent_id"),
        "categories": list(identity.get("categories") or ()),
        "event": event,
        "is_deleted": event == "DELETE",
        "created_at": at.isoformat(),
        "updated_at": at.isoformat(),
    }


def entities_of(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the users, agents, apps and runs that memories name, each with how many it has."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        for kind, name in _named(record):
            at, changed = record["created_at"], record["updated_at"]
            entity = found.setdefault(
                (kind, name),
                {"id": f"{kind}:{name}", "name": name, "type": kind, "total_memories": 0, "owner": None,
                 "created_at": at, "updated_at": changed},
            )  # fmt: skip
            entity["total_memories"] += 1
            entity["created_at"] = min(entity["created_at"], at)
            entity["updated_at"] = max(entity["updated_at"], changed)
    return [found[key] for key in sorted(found)]


def _named(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind in ("user", "agent", "app", "run"):
        if isinstance(name := record.get(f"{kind}_id"), str):
            yield kind, name


def chosen(record: Mapping[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields of a record that a caller wants; the id always."""
    if fields is None:
        return dict(record)
    return {name: value for name, value in record.items() if name == "id" or name in fields}


def _after(prefix: str, subject: str) -> str | None:
    return subject.removeprefix(prefix) if subject.startswith(prefix) else None


def _hash(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
