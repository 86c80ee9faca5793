"""The journal: every run's decisions with their memories in full, written before the store changes.

Beside the entries lie the tombstones, by which late redeliveries of removed memories are skipped, the holds, the
keys of callers, and how often agents were shown a memory.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from memcore.errors import MemoryConflictError, MemoryInputError, MemoryNotFoundError
from memcore.jobs import Use
from memcore.ledger.archive import ArchiveTarget, drop_replaced, follow_moves, rows_to_archive, write_archive_rows
from memcore.ledger.database import (
    Repository,
    Row,
    checked_time,
    equals,
    id_chunks,
    insert_for,
    insert_one,
    later_of,
    put,
    rows_with,
)
from memcore.ledger.rows import RecordRow, decoded, encoded
from memcore.ledger.tables import (
    KEPT,
    OPEN,
    booking_records,
    bookings,
    holds,
    memory_keys,
    memory_use,
    tombstones,
    use_batches,
)
from memcore.models.archival import ArchivalMode
from memcore.records import MemoryRecord

EntryReason = Literal[
    "retention",
    "expired",
    "consolidated",
    "enforced",
    "ended",
    "pruned",
    "restored",
    "deleted",
    "updated",
    "undone",
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
        incoming: to be stored; a summary, or memories that are restored.
        outgoing: to be deleted, with payload and vectors.
        state: prepared when it is decided, done when it is carried out.
        reverses: the entry that it undoes, if it does.
        archived: how those of the outgoing ones are archived that are, in the transaction that prepares the entry;
            read back from the archive alone, and so is the space of their vectors.

    Raises MemoryInputError when an id stands in it twice, a memory is another agent's, or one is archived that stays.
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
class Removal:
    """An entry that removes a memory, or has removed it; an open one is decided and not yet carried out."""

    memory_id: str
    booking_id: str
    run_id: str
    reason: EntryReason
    prepared_at: datetime
    is_open: bool


#: The deletions, changes and merges that leave a memory as it was, once they are undone.
_CANCELLED = frozenset({"deleted", "updated", "consolidated"})

#: What an entry and its row have in common, as it is prepared.
_HEADER = ("booking_id", "run_id", "company", "agent_id", "seq", "reason", "incoming_kind", "reverses")

#: Entries whose content is dropped in one transaction: short enough that no run waits for it.
_ENTRIES_PER_EXPIRY = 100


class Journal(Repository):
    """Redo log and undo log of all runs."""

    def prepare(
        self, *decided: JournalEntry, known: Collection[str] | None = None, watched: Collection[str] = frozenset()
    ) -> None:
        """Commit decisions with every memory in full; add tombstones of outgoing ids, remove those of incoming ones.

        What is to be archived is archived in the same transaction. All entries are written or none; preparing the same
        entry again changes nothing.

        ``known`` are the entries that removed these memories before they were read for this decision (None does not
        ask), ``watched`` further ids whose removal would make the decision wrong.

        Raises MemoryConflictError when one of the memories was removed by an entry that is not known: read them again.
        Raises MemoryInputError when an entry exists with other memories (what is not journaled must not be deleted),
        the run has another entry with its seq, or a record cannot be written without loss.
        """
        now = self._clock()
        archive_targets = [_archive_target(journal_entry, at=now) for journal_entry in decided]
        with self._database.write() as connection:
            targets = zip(decided, archive_targets, strict=True)
            fresh = [each for each in targets if _is_new(connection, each[0], now)]
            _insert_records(connection, [journal_entry for journal_entry, _ in fresh])
            write_archive_rows(connection, *(archive_target for _, archive_target in fresh))
            for journal_entry, _ in fresh:
                new = {"booking_id": journal_entry.booking_id, "buried_at": now}
                put(connection, tombstones, [{"memory_id": each, **new} for each in sorted(journal_entry.outgoing_ids)])
                for part in id_chunks(journal_entry.incoming_ids):
                    connection.execute(delete(tombstones).where(tombstones.c.memory_id.in_(part)))
            if known is not None:
                # Behind the tombstones: two writers of one tombstone wait for each other, on PostgreSQL too.
                planned_removal = frozenset(watched).union(*(journal_entry.outgoing_ids for journal_entry in decided))
                mine = {journal_entry.booking_id for journal_entry in decided}
                if {each.booking_id for each in removals_of(connection, planned_removal)} - mine - set(known):
                    raise MemoryConflictError("a memory was removed while its removal was decided; try again")

    def settle(
        self, *entry_ids: str, missing_in: Collection[str] = frozenset(), missing_out: Collection[str] = frozenset()
    ) -> None:
        """Mark the entries as carried out; settling one again changes nothing.

        Ids that were not stored after all, or not removed after all, are missing, and do not count.
        Raises MemoryNotFoundError when an id names no entry; none is settled then.
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

        Raises MemoryNotFoundError when the content of one has expired.
        """
        order = bookings.c.seq.desc() if newest_first else bookings.c.seq
        query = select(bookings.c.booking_id).where(bookings.c.run_id == run_id).order_by(order)
        for row in self._database.rows(query):
            yield from self._loaded(bookings.c.booking_id == row["booking_id"])

    def next_seq(self, run_id: str) -> int:
        """Return the place of the run's next entry, from 0."""
        query = select(func.coalesce(func.max(bookings.c.seq) + 1, 0)).where(bookings.c.run_id == run_id)
        return int(self._database.value(query))

    def tombstoned(self, sent: Mapping[str, datetime]) -> frozenset[str]:
        """Return those of the ids that were removed at or after they were sent: late redeliveries, to be skipped."""
        # Nearly every memory is new.
        if self._database.has_none(tombstones.c.memory_id, sent):
            return frozenset()
        with self._database.read() as connection:
            return tombstoned(connection, sent)

    def hold(self, company: str, agent_id: str, ids: Collection[str], *, until: datetime) -> None:
        """Protect these memories from runs until a time, or longer where a hold already lasts longer."""
        checked_time("until", until)
        owner = {"company": company, "agent_id": agent_id}
        rows = [{**owner, "memory_id": memory_id, "until": until} for memory_id in sorted(set(ids))]
        with self._database.write() as connection:
            connection.execute(delete(holds).where(equals(holds, **owner), holds.c.until <= self._clock()))
            if rows:
                insert = insert_for(connection, holds)
                longer = {"until": later_of(insert.excluded.until, holds.c.until)}
                keys = list(holds.primary_key)
                connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=longer), rows)

    def protected_by_undo(self, company: str, agent_id: str) -> frozenset[str]:
        """Return the agent's memories that are protected now."""
        mine = equals(holds, company=company, agent_id=agent_id)
        query = select(holds.c.memory_id).where(mine, holds.c.until > self._clock())
        return frozenset(row["memory_id"] for row in self._database.rows(query))

    def expire(self, company: str, *, before: datetime) -> int:
        """Drop the content of a company's entries carried out before a time and return how many; their ids stay."""
        checked_time("before", before)
        total = 0
        while dropped := self._expire_some(company, before):
            total += dropped
        return total

    def undoable(self, run_id: str) -> bool:
        """Say whether the run has entries, all of them carried out and still held in full."""
        found = self._database.rows(select(bookings.c.state, bookings.c.expired_at).where(bookings.c.run_id == run_id))
        return bool(found) and all(row["state"] == "done" and row["expired_at"] is None for row in found)

    def removed_by_run(self, run_id: str, ids: Collection[str]) -> frozenset[str]:
        """Return those of the ids that settled entries of the run have removed."""
        query = moves_with().where(booking_records.c.kind == "removed", bookings.c.run_id == run_id, ~OPEN)
        rows = self._database.rows_with(query, booking_records.c.memory_id, ids)
        return frozenset(row["memory_id"] for row in rows)

    def removals(self, ids: Collection[str]) -> tuple[Removal, ...]:
        """Return the entries that remove any of the ids, or have removed them, oldest first."""
        with self._database.read() as connection:
            return removals_of(connection, ids)

    def gone(self, ids: Collection[str]) -> Mapping[str, tuple[str, EntryReason]]:
        """Return the last removal of each id that has not come back: its entry and reason.

        An undo of an undo does again what was done first, so its reason is that of the first entry.
        """
        query = moves_with(booking_records.c.kind, bookings).order_by(bookings.c.prepared_at, bookings.c.seq)
        with self._database.read() as connection:
            last = {row["memory_id"]: row for row in rows_with(connection, query, booking_records.c.memory_id, ids)}
            return {
                memory_id: (row["booking_id"], _first_reason(connection, row))
                for memory_id, row in last.items()
                if row["kind"] == "removed"
            }

    def taken_by(self, ids: Collection[str]) -> Mapping[str, str]:
        """Return the entry by which each id is gone, where what was undone counts as never done.

        A memory that an archive or a distrust brought back, and an undo took again, is gone by what took it first.
        """
        query = moves_with(booking_records.c.kind, bookings)
        query = query.order_by(bookings.c.prepared_at.desc(), bookings.c.seq.desc())
        moved: dict[str, list[RowMapping]] = {}
        for row in self._database.rows_with(query, booking_records.c.memory_id, ids):
            moved.setdefault(row["memory_id"], []).append(row)
        left = {memory_id: _remaining_moves(rows, {*_CANCELLED, "restored"}) for memory_id, rows in moved.items()}
        return {each: rows[0]["booking_id"] for each, rows in left.items() if rows and rows[0]["kind"] == "removed"}

    def overtaken(self, booking_id: str, ids: Collection[str], *, not_by: Collection[str]) -> frozenset[str]:
        """Return those of the ids that a later entry moved again, of any run but those named.

        A deletion, a change or a merge that was undone does not count, nor does its undo: what it took is as it was.
        """
        at = select(bookings.c.prepared_at).where(bookings.c.booking_id == booking_id).scalar_subquery()
        query = (
            moves_with(bookings)
            .where(bookings.c.prepared_at > at, bookings.c.run_id.not_in(sorted(not_by)))
            .order_by(bookings.c.prepared_at.desc(), bookings.c.seq.desc())
        )
        moved: dict[str, list[RowMapping]] = {}
        for row in self._database.rows_with(query, booking_records.c.memory_id, ids):
            moved.setdefault(row["memory_id"], []).append(row)
        return frozenset(memory_id for memory_id, rows in moved.items() if _remaining_moves(rows))

    def totals(self, run_id: str) -> Counter[tuple[str, str]]:
        """Count the run's moves that are carried out, by the entry's reason and the record's kind."""
        query = (
            select(bookings.c.reason, booking_records.c.kind, func.count().label("times"))
            .select_from(_JOINED)
            .where(bookings.c.run_id == run_id, ~OPEN, booking_records.c.void.is_(False))
            .group_by(bookings.c.reason, booking_records.c.kind)
        )
        return Counter({(row["reason"], row["kind"]): row["times"] for row in self._database.rows(query)})

    def _loaded(self, which: ColumnElement[bool]) -> tuple[JournalEntry, ...]:
        query = select(bookings).where(which).order_by(bookings.c.prepared_at, bookings.c.run_id, bookings.c.seq)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
            return tuple(_load_entry(connection, row) for row in rows)

    def _expire_some(self, company: str, before: datetime) -> int:
        old = select(bookings.c.booking_id).where(bookings.c.company == company, KEPT, bookings.c.settled_at < before)
        content = dict.fromkeys(RecordRow._fields)
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


_JOINED = booking_records.join(bookings, bookings.c.booking_id == booking_records.c.booking_id)


def moves_with(*columns: Any) -> Select[*tuple[Any, ...]]:
    """Return the query for what entries did to memories, without what they turned out not to concern."""
    return select(booking_records.c.memory_id, *columns).select_from(_JOINED).where(booking_records.c.void.is_(False))


def removals_of(connection: Connection, ids: Collection[str]) -> tuple[Removal, ...]:
    """Return the entries that remove any of the ids, oldest first; what one turned out not to concern is left out."""
    query = (
        moves_with(
            bookings.c.booking_id, bookings.c.run_id, bookings.c.reason, bookings.c.prepared_at, OPEN.label("is_open")
        )
        .where(booking_records.c.kind == "removed")
        .order_by(bookings.c.prepared_at, bookings.c.seq)
    )
    return tuple(Removal(**row) for row in rows_with(connection, query, booking_records.c.memory_id, ids))


def _first_reason(connection: Connection, row: RowMapping) -> EntryReason:
    first: RowMapping | None = row
    reason: EntryReason = row["reason"]
    while first is not None:
        reason = first["reason"]
        undo = _row_of(connection, first["reverses"])
        first = _row_of(connection, undo["reverses"] if undo else None)
    return reason


def _row_of(connection: Connection, booking_id: str | None) -> RowMapping | None:
    """Return an entry's row; None for no entry, and for one that is known no longer."""
    return connection.execute(select(bookings).where(bookings.c.booking_id == booking_id)).mappings().one_or_none()


def _remaining_moves(newest_first: Sequence[RowMapping], reasons: Collection[str] = _CANCELLED) -> list[RowMapping]:
    """Return a memory's moves without those of these reasons that were undone, and without those undos."""
    by_id = {row["booking_id"]: row for row in newest_first}
    cancelled: set[str] = set()
    for row in newest_first:
        first = row
        while first["reverses"] in by_id:
            first = by_id[first["reverses"]]
        if first is not row and first["reason"] in reasons and row["booking_id"] not in cancelled:
            cancelled |= {row["booking_id"], row["reverses"]}
    return [row for row in newest_first if row["booking_id"] not in cancelled]


def _is_new(connection: Connection, journal_entry: JournalEntry, now: datetime) -> bool:
    """Insert the entry's row; return whether it is new."""
    header = {name: getattr(journal_entry, name) for name in _HEADER}
    statement = insert_for(connection, bookings).on_conflict_do_nothing(index_elements=["booking_id"])
    statement = statement.values(**header, state="prepared", prepared_at=now)
    try:
        new = connection.execute(statement.returning(bookings.c.booking_id)).scalar_one_or_none()
    except IntegrityError:
        raise MemoryInputError("seq", f"the run has another journal entry with seq {journal_entry.seq}") from None
    if new is None and not _has_the_same_memories(connection, journal_entry):
        raise MemoryInputError("booking_id", "is prepared already, with other memories")
    return new is not None


def _settle(
    connection: Connection, booking_id: str, now: datetime, *, missing_in: Collection[str], missing_out: Collection[str]
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
    removed = select(booking_records.c.memory_id).where(mine, ~incoming)
    connection.execute(delete(memory_use).where(memory_use.c.memory_id.in_(removed)))


def _void(connection: Connection, booking_id: str, ids: Collection[str], side: ColumnElement[bool]) -> None:
    for part in id_chunks(ids):
        mine = (booking_records.c.booking_id == booking_id) & booking_records.c.memory_id.in_(part)
        connection.execute(update(booking_records).where(mine, side).values(void=True))


def _has_the_same_memories(connection: Connection, journal_entry: JournalEntry) -> bool:
    table = booking_records.c
    query = select(table.kind, table.memory_id).where(table.booking_id == journal_entry.booking_id)
    known = {(row.kind, row.memory_id) for row in connection.execute(query)}
    coming = {(journal_entry.incoming_kind, memory_id) for memory_id in journal_entry.incoming_ids}
    return known == coming | {("removed", memory_id) for memory_id in journal_entry.outgoing_ids}


#: Records written in one round: bounds the memory that a large entry takes twice (a record is a few kilobytes).
_RECORDS_PER_INSERT = 200


def _insert_records(connection: Connection, decided: Sequence[JournalEntry]) -> None:
    removed: RecordKind = "removed"
    moved = [
        (each.booking_id, kind, place, record)
        for each in decided
        for kind, records in ((each.incoming_kind, each.incoming), (removed, each.outgoing))
        for place, record in enumerate(records)
    ]
    for start in range(0, len(moved), _RECORDS_PER_INSERT):
        part = moved[start : start + _RECORDS_PER_INSERT]
        rows = [
            {"booking_id": booking_id, "kind": kind, "memory_id": record.entry.id, "position": place, "void": False}
            | columns
            for (booking_id, kind, place, record), columns in zip(
                part, encoded([record for *_, record in part]), strict=True
            )
        ]
        connection.execute(booking_records.insert(), rows)


def _archive_target(journal_entry: JournalEntry, *, at: datetime) -> ArchiveTarget:
    return rows_to_archive(
        [(record, mode) for record in journal_entry.outgoing if (mode := journal_entry.archived.get(record.entry.id))],
        company=journal_entry.company,
        cause=journal_entry.booking_id,
        at=at,
        booking_id=journal_entry.booking_id,
        run_id=journal_entry.run_id,
        vector_space=journal_entry.vector_space,
    )


def _load_entry(connection: Connection, row: RowMapping) -> JournalEntry:
    """Return the entry of a row with the records that count; MemoryNotFoundError when their content has expired."""
    if row["expired_at"] is not None:
        raise MemoryNotFoundError(f"booking_id: the content of {row['booking_id']} has expired")
    mine = equals(booking_records, booking_id=row["booking_id"], void=False)
    query = select(booking_records).where(mine).order_by(booking_records.c.position)
    records = connection.execute(query).mappings().all()
    return JournalEntry(
        **{name: row[name] for name in _HEADER},
        state=row["state"],
        incoming=decoded([record for record in records if record["kind"] != "removed"]),
        outgoing=decoded([record for record in records if record["kind"] == "removed"]),
    )


def tombstoned(connection: Connection, sent: Mapping[str, datetime]) -> frozenset[str]:
    """Return those of the ids that were removed at or after the time they were sent."""
    rows = rows_with(connection, select(tombstones), tombstones.c.memory_id, sent)
    return frozenset(row["memory_id"] for row in rows if row["buried_at"] >= sent[row["memory_id"]])


class MemoryKeys(Repository):
    """The table of keys: which memory is the newest version of each.

    Two writers of one key agree by it; that the store has the memory, the caller makes sure.
    """

    def point(
        self, company: str, agent_id: str, *, namespace: str, key: str, memory_id: str, sent_at: datetime
    ) -> str | None:
        """Let a key lead to this version unless it leads to one that was sent later; return where it led before."""
        name = {"company": company, "agent_id": agent_id, "namespace": namespace, "memory_key": key}
        version = {"memory_id": memory_id, "sent_at": sent_at}
        with self._database.write() as connection:
            # First: of two first versions at once the second waits here, and then finds the other.
            if insert_one(connection, memory_keys, {**name, **version}):
                return None
            mine = equals(memory_keys, **name)
            known = select(memory_keys.c.memory_id).where(mine).with_for_update()
            before: str | None = connection.execute(known).scalar_one_or_none()
            connection.execute(update(memory_keys).where(mine, memory_keys.c.sent_at <= sent_at).values(version))
        return before

    def claim(
        self,
        company: str,
        agent_id: str,
        *,
        namespace: str,
        key: str,
        memory_id: str,
        sent_at: datetime,
        before: str | None,
    ) -> bool:
        """Let a key lead to this version if it still leads where it did before, None for nowhere; return whether."""
        name = {"company": company, "agent_id": agent_id, "namespace": namespace, "memory_key": key}
        version = {"memory_id": memory_id, "sent_at": sent_at}
        with self._database.write() as connection:
            if before is None:
                return insert_one(connection, memory_keys, {**name, **version})
            mine = equals(memory_keys, **name, memory_id=before)
            return connection.execute(update(memory_keys).where(mine).values(version)).rowcount == 1

    def of(self, company: str, agent_id: str, *, namespace: str, key: str) -> str | None:
        """Return the newest version of a keyed memory; it may have been removed since."""
        mine = equals(memory_keys, company=company, agent_id=agent_id, namespace=namespace, memory_key=key)
        found: str | None = self._database.value(select(memory_keys.c.memory_id).where(mine))
        return found


#: How long a batch is remembered as counted: far longer than a broker goes on bringing a message back.
_BATCH_MEMORY = timedelta(days=30)


class Uses(Repository):
    """The table of uses.

    It lies beside the tombstones: a memory's uses go when its removal is settled, and a late batch brings none back.
    """

    def count(self, company: str, batch_id: str, uses: Sequence[Use]) -> int:
        """Add the uses to what is known and return how many memories were counted.

        A batch that was counted before adds nothing, and neither does a memory that was removed since it was used.
        """
        now = self._clock()
        with self._database.write() as connection:
            if not insert_one(connection, use_batches, {"batch_id": batch_id, "counted_at": now}):
                return 0
            connection.execute(delete(use_batches).where(use_batches.c.counted_at < now - _BATCH_MEMORY))
            rows = _summed(company, uses)
            gone = tombstoned(connection, {row["memory_id"]: row["last_used_at"] for row in rows})
            kept = [row for row in rows if row["memory_id"] not in gone]
            if kept:
                _add(connection, kept)
        return len(kept)

    def of(self, company: str, agent_id: str, ids: Collection[str]) -> dict[str, Use]:
        """Return how often this agent was shown each of these memories; one that it was never shown is left out."""
        query = select(*(memory_use.c[name] for name in Use.model_fields))
        query = query.where(equals(memory_use, company=company, agent_id=agent_id))
        rows = self._database.rows_with(query, memory_use.c.memory_id, ids)
        return {row["memory_id"]: Use.model_construct(**row) for row in rows}


def _summed(company: str, uses: Sequence[Use]) -> list[Row]:
    # In one order everywhere: two writers that lock rows in different orders deadlock on PostgreSQL.
    rows: dict[tuple[str, str], Row] = {}
    for use in sorted(uses, key=lambda each: (each.agent_id, each.memory_id)):
        key = (use.agent_id, use.memory_id)
        if key in rows:
            rows[key]["uses"] += use.uses
            rows[key]["last_used_at"] = max(rows[key]["last_used_at"], use.last_used_at)
        else:
            rows[key] = {"company": company, **use.model_dump()}
    return list(rows.values())


def _add(connection: Connection, rows: list[Row]) -> None:
    table, fresh = memory_use.c, insert_for(connection, memory_use)
    newest = later_of(fresh.excluded.last_used_at, table.last_used_at)
    sums = {"uses": table.uses + fresh.excluded.uses, "last_used_at": newest}
    connection.execute(fresh.on_conflict_do_update(index_elements=list(memory_use.primary_key), set_=sums), rows)
