"""The journal: every run's decisions with their memories in full, written before the store changes."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select, update
from sqlalchemy.exc import IntegrityError

from memcore.clock import Clock
from memcore.errors import MemoryInputError, MemoryNotFoundError, MemoryStoreError
from memcore.ledger.archive import drop_replaced, follow_moves, rows_of_entry, write_archive_rows
from memcore.ledger.database import Database, checked_time, insert_for
from memcore.ledger.journal_entries import (
    Counts,
    EntryReason,
    EntryTrace,
    JournalEntry,
    Removal,
    entry_header,
    ids_by_kind,
    insert_records,
    load_entry,
    record_ids,
)
from memcore.ledger.journal_tables import KEPT, OPEN, booking_records, bookings
from memcore.ledger.learning.usage import forget_uses
from memcore.ledger.tombstones import add_tombstones, held_ids, hold_ids, id_chunks, remove_tombstones, tombstoned

_JOINED = booking_records.join(bookings, bookings.c.booking_id == booking_records.c.booking_id)


def removed_by_run(connection: Connection, run_id: str, ids: Collection[str]) -> frozenset[str]:
    """Return those of the ids that a settled entry of the run has removed."""
    found: set[str] = set()
    for part in id_chunks(sorted(ids)):
        query = (
            select(booking_records.c.memory_id)
            .select_from(_JOINED)
            .where(booking_records.c.memory_id.in_(part), booking_records.c.kind == "removed")
            .where(booking_records.c.void.is_(False), bookings.c.run_id == run_id, ~OPEN)
        )
        found.update(connection.execute(query).scalars())
    return frozenset(found)


def removals_of(connection: Connection, ids: Collection[str]) -> tuple[Removal, ...]:
    """Return the entries that remove any of the ids, oldest first; what one turned out not to concern is left out."""
    found: list[Removal] = []
    for part in id_chunks(sorted(ids)):
        query = (
            select(
                booking_records.c.memory_id,
                bookings.c.booking_id,
                bookings.c.run_id,
                bookings.c.reason,
                OPEN.label("is_open"),
            )
            .select_from(_JOINED)
            .where(booking_records.c.memory_id.in_(part), booking_records.c.kind == "removed")
            .where(booking_records.c.void.is_(False))
            .order_by(bookings.c.prepared_at, bookings.c.seq)
        )
        found.extend(Removal(**row) for row in connection.execute(query).mappings())
    return tuple(found)


def last_removals(connection: Connection, ids: Collection[str]) -> dict[str, tuple[str, EntryReason]]:
    """Return the last removal of each id that has not come back: its entry and reason.

    An undo of an undo does again what was done first, so its reason is that of the first entry.
    """
    last: dict[str, Row[Any]] = {}
    for part in id_chunks(sorted(ids)):
        query = (
            select(booking_records.c.memory_id, booking_records.c.kind, bookings)
            .select_from(_JOINED)
            .where(booking_records.c.memory_id.in_(part), booking_records.c.void.is_(False))
            .order_by(bookings.c.prepared_at, bookings.c.seq)
        )
        last.update((row.memory_id, row) for row in connection.execute(query))
    return {
        memory_id: (row.booking_id, _first_reason(connection, row))
        for memory_id, row in last.items()
        if row.kind == "removed"
    }


def _first_reason(connection: Connection, row: Row[Any]) -> EntryReason:
    reason: EntryReason = row.reason
    reverses: str | None = row.reverses
    while reverses is not None:
        undo = connection.execute(select(bookings).where(bookings.c.booking_id == reverses)).one()
        if undo.reverses is None:
            break
        again = connection.execute(select(bookings).where(bookings.c.booking_id == undo.reverses)).one()
        reason, reverses = again.reason, again.reverses
    return reason


def moved_again(
    connection: Connection, booking_id: str, ids: Collection[str], *, not_by: Collection[str]
) -> frozenset[str]:
    """Return those of the ids that a later entry moved again, of any run but those named.

    An explicit deletion that was undone does not count, nor does its undo: what it took is as it was before.
    """
    at = select(bookings.c.prepared_at).where(bookings.c.booking_id == booking_id).scalar_subquery()
    moved: dict[str, list[Row[Any]]] = {}
    for part in id_chunks(sorted(ids)):
        query = (
            select(booking_records.c.memory_id, bookings)
            .select_from(_JOINED)
            .where(booking_records.c.memory_id.in_(part), booking_records.c.void.is_(False))
            .where(bookings.c.prepared_at > at, bookings.c.run_id.not_in(sorted(not_by)))
            .order_by(bookings.c.prepared_at.desc(), bookings.c.seq.desc())
        )
        for row in connection.execute(query):
            moved.setdefault(row.memory_id, []).append(row)
    return frozenset(memory_id for memory_id, rows in moved.items() if _remaining_moves(rows))


def _remaining_moves(newest_first: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Return a memory's moves without deletions that were undone, and without those undos."""
    by_id = {row.booking_id: row for row in newest_first}
    cancelled: set[str] = set()
    for row in newest_first:
        first = row
        while first.reverses in by_id:
            first = by_id[first.reverses]
        if first is not row and first.reason == "deleted" and row.booking_id not in cancelled:
            cancelled |= {row.booking_id, row.reverses}
    return [row for row in newest_first if row.booking_id not in cancelled]


def run_totals(connection: Connection, run_id: str) -> Counter[tuple[str, str]]:
    """Count the run's moves that are carried out, by the entry's reason and the record's kind."""
    query = (
        select(bookings.c.reason, booking_records.c.kind, func.count())
        .select_from(_JOINED)
        .where(bookings.c.run_id == run_id, ~OPEN, booking_records.c.void.is_(False))
        .group_by(bookings.c.reason, booking_records.c.kind)
    )
    return Counter({(reason, kind): count for reason, kind, count in connection.execute(query)})


#: Entries whose content is dropped in one transaction: short enough that no run waits for it.
_ENTRIES_PER_EXPIRY = 100


class Journal:
    """Redo log and undo log of all runs; every method is one short transaction.

    Args:
        database: the journal.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def prepare(
        self, *decided: JournalEntry, known: Collection[str] | None = None, watched: Collection[str] = frozenset()
    ) -> None:
        """Commit decisions with every memory in full; add tombstones of outgoing ids, remove those of incoming ones.

        What is to be archived is archived in the same transaction. All entries are written or none; preparing the same
        entry again changes nothing.

        Args:
            decided: the entries.
            known: the entries that removed these memories before they were read for this decision; None does not ask.
            watched: further ids whose removal would make the decision wrong.

        Raises:
            MemoryStoreError: one of the memories was removed by an entry that is not known; read them again.
            MemoryInputError: an entry exists with other memories (what is not journaled must not be deleted), the
                run has another entry with its seq, or a record cannot be written without loss.
        """
        now = self._clock()
        archive_targets = [rows_of_entry(journal_entry, at=now) for journal_entry in decided]
        with self._database.write() as connection:
            for journal_entry, archive_target in zip(decided, archive_targets, strict=True):
                if not _is_new(connection, journal_entry, now):
                    continue
                insert_records(connection, journal_entry)
                write_archive_rows(connection, archive_target)
                add_tombstones(connection, journal_entry.outgoing_ids, booking_id=journal_entry.booking_id, at=now)
                remove_tombstones(connection, journal_entry.incoming_ids)
            if known is not None:
                # Behind the tombstones: two writers of one tombstone wait for each other, on PostgreSQL too.
                planned_removal = frozenset(watched).union(*(journal_entry.outgoing_ids for journal_entry in decided))
                mine = {journal_entry.booking_id for journal_entry in decided}
                if {each.booking_id for each in removals_of(connection, planned_removal)} - mine - set(known):
                    raise MemoryStoreError("a memory was removed while its removal was decided; try again")

    def settle(
        self,
        *entry_ids: str,
        missing_in: Collection[str] = frozenset(),
        missing_out: Collection[str] = frozenset(),
    ) -> None:
        """Mark the entries as carried out; settling one again changes nothing.

        Args:
            entry_ids: entries that were prepared.
            missing_in: incoming ids that were not stored after all; they do not count.
            missing_out: outgoing ids that were not removed after all; they do not count.

        Raises:
            MemoryNotFoundError: an id names no entry; none is settled then.
        """
        now = self._clock()
        with self._database.write() as connection:
            for booking_id in entry_ids:
                _settle(connection, booking_id, now, missing_in=missing_in, missing_out=missing_out)

    def open_entries(self, run_id: str) -> tuple[JournalEntry, ...]:
        """Return the run's entries that are decided and not yet carried out, in order."""
        return self._loaded((bookings.c.run_id == run_id) & OPEN)

    def open_of(self, company: str, agent_id: str) -> tuple[JournalEntry, ...]:
        """Return the agent's open entries of any run: a run that failed leaves them behind."""
        return self._loaded((bookings.c.company == company) & (bookings.c.agent_id == agent_id) & OPEN)

    def journal_entries(self, run_id: str, *, newest_first: bool = False) -> Iterator[JournalEntry]:
        """Yield the run's entries in order, or in reverse, one in memory at a time, with the memories that count.

        Raises:
            MemoryNotFoundError: the content of one has expired.
        """
        order = bookings.c.seq.desc() if newest_first else bookings.c.seq
        query = select(bookings.c.booking_id).where(bookings.c.run_id == run_id).order_by(order)
        with self._database.read() as connection:
            found = connection.execute(query).scalars().all()
        for booking_id in found:
            yield from self._loaded(bookings.c.booking_id == booking_id)

    def next_seq(self, run_id: str) -> int:
        """Return the place of the run's next entry, from 0."""
        query = select(func.coalesce(func.max(bookings.c.seq) + 1, 0)).where(bookings.c.run_id == run_id)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def tombstoned(self, sent: Mapping[str, datetime]) -> frozenset[str]:
        """Return those of the ids that were removed at or after they were sent: late redeliveries, to be skipped."""
        with self._database.read() as connection:
            return tombstoned(connection, sent)

    def hold(self, company: str, agent_id: str, ids: Collection[str], *, until: datetime) -> None:
        """Protect these memories from runs until a time."""
        checked_time("until", until)
        with self._database.write() as connection:
            hold_ids(connection, company, agent_id, ids, until=until, now=self._clock())

    def protected_by_undo(self, company: str, agent_id: str) -> frozenset[str]:
        """Return the agent's memories that are protected now."""
        with self._database.read() as connection:
            return held_ids(connection, company, agent_id, now=self._clock())

    def tally(self, company: str, agent_id: str) -> Counts:
        """Count, per id, what the agent's settled entries created, restored and removed."""
        query = (
            select(booking_records.c.kind, booking_records.c.memory_id, func.count())
            .join(bookings, bookings.c.booking_id == booking_records.c.booking_id)
            .where(bookings.c.company == company, bookings.c.agent_id == agent_id, ~OPEN)
            .where(booking_records.c.void.is_(False))
            .group_by(booking_records.c.kind, booking_records.c.memory_id)
        )
        counts: dict[str, Counter[str]] = {"created": Counter(), "restored": Counter(), "removed": Counter()}
        with self._database.read() as connection:
            for kind, memory_id, count in connection.execute(query):
                counts[kind][memory_id] = count
        return Counts(**counts)

    def trace(self, memory_id: str) -> tuple[EntryTrace, ...]:
        """Return what runs did to a memory, oldest first; expired content leaves its trace."""
        query = (
            select(booking_records.c.kind, booking_records.c.void, bookings)
            .join(bookings, bookings.c.booking_id == booking_records.c.booking_id)
            .where(booking_records.c.memory_id == memory_id)
            .order_by(bookings.c.prepared_at, bookings.c.seq)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return tuple(
            EntryTrace(
                memory_id=memory_id,
                booking_id=row["booking_id"],
                run_id=row["run_id"],
                kind=row["kind"],
                reason=row["reason"],
                at=row["prepared_at"],
                counted=row["state"] == "done" and not row["void"],
            )
            for row in rows
        )

    def expire(self, company: str, *, before: datetime) -> int:
        """Drop the content of a company's entries carried out before a time and return how many; their ids stay."""
        checked_time("before", before)
        total = 0
        while dropped := self._expire_some(company, before):
            total += dropped
        return total

    def undoable(self, run_id: str) -> bool:
        """Say whether the run has entries, all of them carried out and still held in full."""
        query = select(bookings.c.state, bookings.c.expired_at).where(bookings.c.run_id == run_id)
        with self._database.read() as connection:
            found = connection.execute(query).all()
        return bool(found) and all(state == "done" and expired_at is None for state, expired_at in found)

    def removed_by_run(self, run_id: str, ids: Collection[str]) -> frozenset[str]:
        """Return those of the ids that settled entries of the run have removed."""
        with self._database.read() as connection:
            return removed_by_run(connection, run_id, ids)

    def removals(self, ids: Collection[str]) -> tuple[Removal, ...]:
        """Return the entries that remove any of the ids, or have removed them, oldest first."""
        with self._database.read() as connection:
            return removals_of(connection, ids)

    def gone(self, ids: Collection[str]) -> Mapping[str, tuple[str, EntryReason]]:
        """Return the last removal of each id that has not come back: its entry and reason."""
        with self._database.read() as connection:
            return last_removals(connection, ids)

    def overtaken(self, booking_id: str, ids: Collection[str], *, not_by: Collection[str]) -> frozenset[str]:
        """Return those of the ids that a later entry moved again; see :func:`moved_again`."""
        with self._database.read() as connection:
            return moved_again(connection, booking_id, ids, not_by=not_by)

    def totals(self, run_id: str) -> Counter[tuple[str, str]]:
        """Count the run's moves that are carried out, by the entry's reason and the record's kind."""
        with self._database.read() as connection:
            return run_totals(connection, run_id)

    def _loaded(self, which: ColumnElement[bool]) -> tuple[JournalEntry, ...]:
        query = select(bookings).where(which).order_by(bookings.c.prepared_at, bookings.c.run_id, bookings.c.seq)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
            return tuple(load_entry(connection, row) for row in rows)

    def _expire_some(self, company: str, before: datetime) -> int:
        old = select(bookings.c.booking_id).where(bookings.c.company == company, KEPT, bookings.c.settled_at < before)
        content = dict.fromkeys(("body", "dense", "sparse_indices", "sparse_values"))
        with self._database.write() as connection:
            found = connection.execute(old.limit(_ENTRIES_PER_EXPIRY).with_for_update()).scalars().all()
            if not found:
                return 0
            drop_replaced(connection, found)
            records = booking_records.c.booking_id.in_(found)
            connection.execute(update(booking_records).where(records).values(**content))
            these = bookings.c.booking_id.in_(found)
            connection.execute(update(bookings).where(these).values(expired_at=self._clock()))
            return len(found)


def _is_new(connection: Connection, journal_entry: JournalEntry, now: datetime) -> bool:
    """Insert the entry's row; return whether it is new."""
    statement = insert_for(connection, bookings).on_conflict_do_nothing(index_elements=["booking_id"])
    statement = statement.values(**entry_header(journal_entry), prepared_at=now)
    try:
        new = connection.execute(statement.returning(bookings.c.booking_id)).scalar_one_or_none()
    except IntegrityError:
        raise MemoryInputError("seq", f"the run has another journal entry with seq {journal_entry.seq}") from None
    known = record_ids(connection, journal_entry.booking_id) if new is None else None
    if known is not None and known != ids_by_kind(journal_entry):
        raise MemoryInputError("booking_id", "is prepared already, with other memories")
    return new is not None


def _settle(
    connection: Connection,
    booking_id: str,
    now: datetime,
    *,
    missing_in: Collection[str],
    missing_out: Collection[str],
) -> None:
    incoming = booking_records.c.kind != "removed"
    query = update(bookings).where(bookings.c.booking_id == booking_id, OPEN)
    query = query.values(state="done", settled_at=now)
    journal_entry = connection.execute(query.returning(bookings)).mappings().one_or_none()
    if journal_entry is None:
        known = select(bookings.c.booking_id).where(bookings.c.booking_id == booking_id)
        if connection.execute(known).scalar_one_or_none() is None:
            raise MemoryNotFoundError(f"booking_id: {booking_id!r} names no journal entry")
        return
    _void(connection, booking_id, missing_in, incoming)
    _void(connection, booking_id, missing_out, ~incoming)
    follow_moves(connection, journal_entry, at=now)
    mine = (booking_records.c.booking_id == booking_id) & booking_records.c.void.is_(False)
    forget_uses(connection, select(booking_records.c.memory_id).where(mine, ~incoming))


def _void(connection: Connection, booking_id: str, ids: Collection[str], side: ColumnElement[bool]) -> None:
    for part in id_chunks(sorted(ids)):
        mine = (booking_records.c.booking_id == booking_id) & booking_records.c.memory_id.in_(part)
        connection.execute(update(booking_records).where(mine, side).values(void=True))
