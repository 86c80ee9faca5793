"""Lineage: which memories replaced which; ids stay when the journal's content has expired."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import RowMapping, func, select

from memcore.ledger.database import Database, equals
from memcore.ledger.journal import EntryReason, RecordKind, moves_with
from memcore.ledger.learning.lessons import REPEATED
from memcore.ledger.rows import RecordRow, decode
from memcore.ledger.tables import OUT, archive, booking_records, bookings, experiences, lessons, model_calls
from memcore.models.base import Frozen
from memcore.records import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One thing that a run did to a memory: decided ``at``, and carried out at ``settled_at``, or not yet.

    ``has_content`` says whether the journal still holds the memory in full.
    """

    memory_id: str
    booking_id: str
    run_id: str
    kind: RecordKind
    reason: EntryReason
    at: datetime
    settled_at: datetime | None
    has_content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Ids that came in and went out as one decision, in the order in which they were journaled; expired content counts.

    A consolidation takes out the originals, oldest first, and brings in the summary.
    """

    booking_id: str
    run_id: str
    seq: int
    reason: EntryReason
    is_open: bool
    incoming: tuple[str, ...]
    outgoing: tuple[str, ...]


class ModelTrace(Frozen):
    """The use of one model for one purpose in a run; ``tokens`` are read and written ones."""

    run_id: str
    purpose: str
    model: str
    calls: int
    tokens: int
    cost: float


class LineageReader:
    """Reads lineage and the archive from the journal, and the model calls of runs from the ledger; writes nothing."""

    def __init__(self, *, journal: Database, ledger: Database) -> None:
        self._journal = journal
        self._ledger = ledger

    def agent_of(self, company: str, memory_id: str) -> str | None:
        """Return the company's agent whose memory runs have moved, the last one's; None when none has."""
        query = (
            select(bookings.c.agent_id)
            .join(booking_records, booking_records.c.booking_id == bookings.c.booking_id)
            .where(booking_records.c.memory_id == memory_id, bookings.c.company == company)
            .order_by(bookings.c.prepared_at.desc())
            .limit(1)
        )
        found: str | None = self._journal.value(query)
        return found

    def moves(self, company: str, agent_id: str, ids: Collection[str]) -> Mapping[str, tuple[Move, ...]]:
        """Return what runs did to each of an agent's memories, oldest first; one that nothing was done to is left out.

        What an entry turned out not to concern does not count.
        """
        found: dict[str, list[Move]] = {}
        entry = bookings.c
        columns = (booking_records.c.kind, entry.booking_id, entry.run_id, entry.reason, entry.settled_at)
        query = moves_with(*columns, entry.prepared_at.label("at"), entry.expired_at.is_(None).label("has_content"))
        query = query.where(equals(bookings, company=company, agent_id=agent_id))
        query = query.order_by(entry.prepared_at, entry.seq, booking_records.c.kind)
        for row in self._journal.rows_with(query, booking_records.c.memory_id, ids):
            found.setdefault(row["memory_id"], []).append(Move(**row))
        return {memory_id: tuple(moves) for memory_id, moves in found.items()}

    def exchanges(self, entry_ids: Collection[str]) -> Mapping[str, Exchange]:
        """Return the ids that each of the entries moved."""
        rows = self._journal.rows_with(_MOVES.order_by(*_PLACES), bookings.c.booking_id, entry_ids)
        return {each.booking_id: each for each in _exchanges(rows)}

    def of_run(self, run_id: str) -> tuple[Exchange, ...]:
        """Return the ids that the run's entries moved, in the order in which they were decided."""
        return tuple(_exchanges(self._journal.rows(_MOVES.where(bookings.c.run_id == run_id).order_by(*_PLACES))))

    def derivations(self, company: str, agent_id: str) -> tuple[Exchange, ...]:
        """Return every merge of an agent, and every change of a text: what came in was made of what went out."""
        mine = equals(bookings, company=company, agent_id=agent_id) & bookings.c.reason.in_(_DERIVING)
        return tuple(_exchanges(self._journal.rows(_MOVES.where(mine).order_by(*_PLACES))))

    def learned(self, company: str, agent_id: str) -> tuple[tuple[str, str], ...]:
        """Return what an agent's finished tasks became: of each its id, and that of the memory made of it.

        A lesson that repeats an earlier one was not made of its own task.
        """
        is_first = lessons.c.outcome.is_distinct_from(REPEATED) & lessons.c.memory_id.is_not(None)
        mine = {"company": company, "agent_id": agent_id}
        drawn = select(lessons.c.lesson_id.label("task"), lessons.c.memory_id.label("made"))
        compressed = select(experiences.c.experience_id.label("task"), experiences.c.compressed_as.label("made"))
        queries = (
            drawn.where(equals(lessons, **mine), is_first),
            compressed.where(equals(experiences, **mine), experiences.c.compressed_as.is_not(None)),
        )
        return tuple((row["task"], row["made"]) for query in queries for row in self._ledger.rows(query))

    def held(self, company: str, agent_id: str) -> Iterator[MemoryRecord]:
        """Yield what journal and archive still hold of an agent in full, without vectors; one may come twice."""
        mine = equals(bookings, company=company, agent_id=agent_id)
        joined = booking_records.join(bookings, booking_records.c.booking_id == bookings.c.booking_id)
        journaled = select(booking_records.c.body).select_from(joined)
        journaled = journaled.where(mine, booking_records.c.body.is_not(None))
        kept = select(archive.c.body).where(equals(archive, company=company, agent_id=agent_id))
        for query in (journaled, kept):
            for row in self._journal.rows(query):
                yield decode(RecordRow(row["body"], None, None, None))

    def archived(self, company: str, agent_id: str, ids: Collection[str]) -> frozenset[str]:
        """Return those of an agent's memories that lie in the archive and are not in the store."""
        query = select(archive.c.original_id).where(equals(archive, company=company, agent_id=agent_id), OUT)
        return frozenset(row["original_id"] for row in self._journal.rows_with(query, archive.c.original_id, ids))

    def record(self, booking_id: str, memory_id: str) -> MemoryRecord | None:
        """Return a memory as the entry wrote it down; None when it holds none, or its content has expired."""
        columns = [booking_records.c[name] for name in RecordRow._fields]
        mine = equals(booking_records, booking_id=booking_id, memory_id=memory_id)
        row = self._journal.row(select(*columns).where(mine).limit(1))
        return None if row is None or row["body"] is None else decode(RecordRow(**row))

    def models(self, company: str, run_id: str) -> tuple[ModelTrace, ...]:
        """Return which models were asked for a run, by purpose."""
        called = model_calls.c
        query = (
            select(
                called.run_id,
                called.purpose,
                called.model,
                func.count().label("calls"),
                func.sum(called.prompt_tokens + called.completion_tokens).label("tokens"),
                func.sum(called.cost).label("cost"),
            )
            .where(called.company == company, called.run_id == run_id, called.attempts > 0)
            .group_by(called.run_id, called.purpose, called.model)
            .order_by(called.purpose, called.model)
        )
        # PostgreSQL adds integers up to a decimal number.
        return tuple(ModelTrace(**{**row, "tokens": int(row["tokens"])}) for row in self._ledger.rows(query))


#: The reasons of entries that made a memory of others.
_DERIVING: tuple[EntryReason, ...] = ("consolidated", "updated")

#: What entries did to memories.
_MOVES = moves_with(booking_records.c.kind, bookings)

#: A run's entries in order, each with what came in, then with what went out, as it was journaled.
_PLACES = (
    bookings.c.prepared_at,
    bookings.c.seq,
    bookings.c.booking_id,
    booking_records.c.kind,
    booking_records.c.position,
)


def _exchanges(rows: Iterable[RowMapping]) -> Iterator[Exchange]:
    by_entry: dict[str, list[RowMapping]] = {}
    for row in rows:
        by_entry.setdefault(row["booking_id"], []).append(row)
    for members in by_entry.values():
        yield Exchange(
            **{name: members[0][name] for name in ("booking_id", "run_id", "seq", "reason")},
            is_open=members[0]["settled_at"] is None,
            incoming=tuple(row["memory_id"] for row in members if row["kind"] != "removed"),
            outgoing=tuple(row["memory_id"] for row in members if row["kind"] == "removed"),
        )
