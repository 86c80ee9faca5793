"""Journal entries: the memories that one decision of a run adds and removes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, select

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.database import RecordRow, decode, encode
from memcore.ledger.journal_tables import booking_records
from memcore.models.archival import ArchivalMode
from memcore.records import MemoryRecord

EntryReason = Literal[
    "retention", "expired", "consolidated", "enforced", "ended", "pruned", "restored", "deleted", "undone"
]
EntryState = Literal["prepared", "done"]
IncomingKind = Literal["created", "restored"]
RecordKind = Literal["created", "restored", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """The memories that one decision adds and removes, in full; both redo log and undo log.

    Attributes:
        booking_id: from cause, so that preparing it twice leaves one.
        seq: its place in the run, from 0.
        reason: why the outgoing ones leave, or why the incoming ones return.
        incoming: to be stored; a summary, or memories that are restored.
        incoming_kind: which of the two they are.
        outgoing: to be deleted, with payload and vectors.
        state: prepared when it is decided, done when it is carried out.
        reverses: the entry that it undoes, if it does.
        archived: how those of the outgoing ones are archived that are, in the transaction that prepares the entry;
            read back from the archive alone, and so is the next.
        vector_space: what the vectors of the archived ones mean; see BatchBackend.

    Raises:
        MemoryInputError: an id stands in it twice, a memory is another agent's, or one is archived that does not go.
    """

    booking_id: str
    run_id: str
    company: str
    agent_id: str
    seq: int
    reason: EntryReason
    incoming: tuple[MemoryRecord, ...] = ()
    incoming_kind: IncomingKind = "created"
    outgoing: tuple[MemoryRecord, ...] = ()
    state: EntryState = "prepared"
    reverses: str | None = None
    archived: Mapping[str, ArchivalMode] = field(default_factory=dict)
    vector_space: str | None = None

    def __post_init__(self) -> None:
        """Refuse an entry that could not be carried out or undone."""
        records = self.incoming + self.outgoing
        if len({record.entry.id for record in records}) != len(records):
            raise MemoryInputError("booking", "holds one id twice; an id comes in or goes out, once")
        if any(record.entry.agent_id != self.agent_id for record in records):
            raise MemoryInputError("booking", "holds a memory of another agent")
        if not self.outgoing_ids.issuperset(self.archived):
            raise MemoryInputError("booking", "archives a memory that does not go out")

    @property
    def incoming_ids(self) -> frozenset[str]:
        """Ids coming in."""
        return frozenset(record.entry.id for record in self.incoming)

    @property
    def outgoing_ids(self) -> frozenset[str]:
        """Ids going out."""
        return frozenset(record.entry.id for record in self.outgoing)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryTrace:
    """One thing that a run did to a memory: answers what made it, and what removed it.

    Attributes:
        kind: created, restored or removed.
        counted: False when the entry is still open, or when the memory turned out not to be concerned.
    """

    memory_id: str
    booking_id: str
    run_id: str
    kind: RecordKind
    reason: EntryReason
    at: datetime
    counted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """An entry that removes a memory, or has removed it.

    Attributes:
        is_open: whether it is decided and not yet carried out.
    """

    memory_id: str
    booking_id: str
    run_id: str
    reason: EntryReason
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often each id of an agent was created, restored and removed by entries that are done.

    Per agent: stored + created + restored = live + removed, as multisets of ids.
    """

    created: Counter[str] = field(default_factory=Counter)
    restored: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)


#: Records written in one round: bounds the memory that a large entry takes twice (a record is a few kilobytes).
_RECORDS_PER_INSERT = 200


def record_ids(connection: Connection, booking_id: str) -> dict[str, frozenset[str]]:
    """Return the ids that an entry was prepared with, by kind."""
    query = select(booking_records.c.kind, booking_records.c.memory_id).where(
        booking_records.c.booking_id == booking_id
    )
    found: dict[str, set[str]] = {}
    for kind, memory_id in connection.execute(query):
        found.setdefault(kind, set()).add(memory_id)
    return {kind: frozenset(ids) for kind, ids in found.items()}


def ids_by_kind(journal_entry: JournalEntry) -> dict[str, frozenset[str]]:
    """Return an entry's ids in the same form."""
    both = {journal_entry.incoming_kind: journal_entry.incoming_ids, "removed": journal_entry.outgoing_ids}
    return {kind: ids for kind, ids in both.items() if ids}


def insert_records(connection: Connection, journal_entry: JournalEntry) -> None:
    """Write every record of the entry in full."""
    rows: list[dict[str, Any]] = []
    for row in _rows(journal_entry):
        rows.append(row)
        if len(rows) == _RECORDS_PER_INSERT:
            connection.execute(booking_records.insert(), rows)
            rows = []
    if rows:
        connection.execute(booking_records.insert(), rows)


def _rows(journal_entry: JournalEntry) -> Iterator[dict[str, Any]]:
    for kind, records in ((journal_entry.incoming_kind, journal_entry.incoming), ("removed", journal_entry.outgoing)):
        for position, record in enumerate(records):
            yield {
                "booking_id": journal_entry.booking_id,
                "kind": kind,
                "memory_id": record.entry.id,
                "position": position,
                "void": False,
                **encode(record)._asdict(),
            }


def load_entry(connection: Connection, row: RowMapping) -> JournalEntry:
    """Return the entry of a row with the records that count; MemoryNotFoundError when their content has expired."""
    if row["expired_at"] is not None:
        raise MemoryNotFoundError(f"booking_id: the content of {row['booking_id']} has expired")
    query = select(booking_records).where(
        booking_records.c.booking_id == row["booking_id"], booking_records.c.void.is_(False)
    )
    records = connection.execute(query.order_by(booking_records.c.position)).mappings().all()
    return JournalEntry(
        booking_id=row["booking_id"],
        run_id=row["run_id"],
        company=row["company"],
        agent_id=row["agent_id"],
        seq=row["seq"],
        reason=row["reason"],
        incoming=_records(record for record in records if record["kind"] != "removed"),
        incoming_kind=row["incoming_kind"],
        outgoing=_records(record for record in records if record["kind"] == "removed"),
        state=row["state"],
        reverses=row["reverses"],
    )


def _records(rows: Iterable[RowMapping]) -> tuple[MemoryRecord, ...]:
    return tuple(decode(RecordRow(*(row[name] for name in RecordRow._fields))) for row in rows)


def entry_header(journal_entry: JournalEntry) -> dict[str, Any]:
    """Return the row of an entry that is about to be prepared, without its times."""
    return {
        "booking_id": journal_entry.booking_id,
        "run_id": journal_entry.run_id,
        "company": journal_entry.company,
        "agent_id": journal_entry.agent_id,
        "seq": journal_entry.seq,
        "reason": journal_entry.reason,
        "incoming_kind": journal_entry.incoming_kind,
        "state": "prepared",
        "reverses": journal_entry.reverses,
    }
