"""What the journal remembers of ids: who removed them, what touched them since, and how many each run moved."""

from collections import Counter
from collections.abc import Collection

from sqlalchemy import Connection, func, select

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


def overtaken(
    connection: Connection, booking_id: str, ids: Collection[str], *, not_by: Collection[str]
) -> frozenset[str]:
    """Return those of the ids that a later booking moved again, of any run but those named."""
    at = select(bookings.c.prepared_at).where(bookings.c.booking_id == booking_id).scalar_subquery()
    found: set[str] = set()
    for part in parts(sorted(ids)):
        query = (
            select(booking_records.c.memory_id)
            .select_from(_JOINED)
            .where(booking_records.c.memory_id.in_(part), booking_records.c.void.is_(False))
            .where(bookings.c.prepared_at > at, bookings.c.run_id.not_in(sorted(not_by)))
        )
        found.update(connection.execute(query).scalars())
    return frozenset(found)


def totals(connection: Connection, run_id: str) -> Counter[tuple[str, str]]:
    """Count the run's moves that are carried out, by the booking's reason and the record's kind."""
    query = (
        select(bookings.c.reason, booking_records.c.kind, func.count())
        .select_from(_JOINED)
        .where(bookings.c.run_id == run_id, ~OPEN, booking_records.c.void.is_(False))
        .group_by(bookings.c.reason, booking_records.c.kind)
    )
    return Counter({(reason, kind): count for reason, kind, count in connection.execute(query)})
