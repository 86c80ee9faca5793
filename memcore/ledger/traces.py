"""What the journal remembers of ids: who removed them, what touched them since, and how many each run moved."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from memcore.ledger.booking import BookingReason, Removal
from memcore.ledger.journal_tables import OPEN, booking_records, bookings
from memcore.ledger.tombstones import parts

_JOINED = booking_records.join(bookings, bookings.c.booking_id == booking_records.c.booking_id)


def removed_by_run(connection: Connection, run_id: str, ids: Collection[str]) -> frozenset[str]:
    """Return those of the ids that a booking of the run, carried out, has removed."""
    found: set[str] = set()
    for part in parts(sorted(ids)):
        query = (
            select(booking_records.c.memory_id)
            .select_from(_JOINED)
            .where(booking_records.c.memory_id.in_(part), booking_records.c.kind == "removed")
            .where(booking_records.c.void.is_(False), bookings.c.run_id == run_id, ~OPEN)
        )
        found.update(connection.execute(query).scalars())
    return frozenset(found)


def removals(connection: Connection, ids: Collection[str]) -> tuple[Removal, ...]:
    """Return the bookings that remove any of the ids, oldest first; what one turned out not to concern is left out."""
    found: list[Removal] = []
    for part in parts(sorted(ids)):
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


def gone(connection: Connection, ids: Collection[str]) -> dict[str, tuple[str, BookingReason]]:
    """Return the booking by which those of the ids left last that have not come back, and its reason.

    An undo of an undo does again what was done first, so its reason is that of the first booking.
    """
    last: dict[str, Row[Any]] = {}
    for part in parts(sorted(ids)):
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


def _first_reason(connection: Connection, row: Row[Any]) -> BookingReason:
    reason: BookingReason = row.reason
    reverses: str | None = row.reverses
    while reverses is not None:
        undo = connection.execute(select(bookings).where(bookings.c.booking_id == reverses)).one()
        if undo.reverses is None:
            break
        again = connection.execute(select(bookings).where(bookings.c.booking_id == undo.reverses)).one()
        reason, reverses = again.reason, again.reverses
    return reason


def overtaken(
    connection: Connection, booking_id: str, ids: Collection[str], *, not_by: Collection[str]
) -> frozenset[str]:
    """Return those of the ids that a later booking moved again, of any run but those named.

    An explicit deletion that was undone does not count, nor does its undo: what it took is as it was before.
    """
    at = select(bookings.c.prepared_at).where(bookings.c.booking_id == booking_id).scalar_subquery()
    moved: dict[str, list[Row[Any]]] = {}
    for part in parts(sorted(ids)):
        query = (
            select(booking_records.c.memory_id, bookings)
            .select_from(_JOINED)
            .where(booking_records.c.memory_id.in_(part), booking_records.c.void.is_(False))
            .where(bookings.c.prepared_at > at, bookings.c.run_id.not_in(sorted(not_by)))
            .order_by(bookings.c.prepared_at.desc(), bookings.c.seq.desc())
        )
        for row in connection.execute(query):
            moved.setdefault(row.memory_id, []).append(row)
    return frozenset(memory_id for memory_id, rows in moved.items() if _standing(rows))


def _standing(newest_first: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Return what is left of a memory's moves without deletions that were undone, and without those undos."""
    by_id = {row.booking_id: row for row in newest_first}
    cancelled: set[str] = set()
    for row in newest_first:
        first = row
        while first.reverses in by_id:
            first = by_id[first.reverses]
        if first is not row and first.reason == "deleted" and row.booking_id not in cancelled:
            cancelled |= {row.booking_id, row.reverses}
    return [row for row in newest_first if row.booking_id not in cancelled]


def totals(connection: Connection, run_id: str) -> Counter[tuple[str, str]]:
    """Count the run's moves that are carried out, by the booking's reason and the record's kind."""
    query = (
        select(bookings.c.reason, booking_records.c.kind, func.count())
        .select_from(_JOINED)
        .where(bookings.c.run_id == run_id, ~OPEN, booking_records.c.void.is_(False))
        .group_by(bookings.c.reason, booking_records.c.kind)
    )
    return Counter({(reason, kind): count for reason, kind, count in connection.execute(query)})
