"""Bookings to and from their rows, inside a transaction that someone else opened."""

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from memcore.backends.record import MemoryRecord
from memcore.errors import MemoryNotFoundError
from memcore.ledger.booking import Booking
from memcore.ledger.journal_tables import booking_records
from memcore.ledger.rows import RecordRow, decode, encode

#: Records written in one round: bounds the memory that a large booking takes twice (a record is a few kilobytes).
_RECORDS_PER_INSERT = 200


def record_ids(connection: Connection, booking_id: str) -> dict[str, frozenset[str]]:
    """Return the ids that a booking was prepared with, by kind."""
    query = select(booking_records.c.kind, booking_records.c.memory_id).where(
        booking_records.c.booking_id == booking_id
    )
    found: dict[str, set[str]] = {}
    for kind, memory_id in connection.execute(query):
        found.setdefault(kind, set()).add(memory_id)
    return {kind: frozenset(ids) for kind, ids in found.items()}


def ids_by_kind(booking: Booking) -> dict[str, frozenset[str]]:
    """Return a booking's ids in the same form."""
    both = {booking.incoming_kind: booking.incoming_ids, "removed": booking.outgoing_ids}
    return {kind: ids for kind, ids in both.items() if ids}


def insert_records(connection: Connection, booking: Booking) -> None:
    """Write every record of the booking in full."""
    rows: list[dict[str, Any]] = []
    for row in _rows(booking):
        rows.append(row)
        if len(rows) == _RECORDS_PER_INSERT:
            connection.execute(booking_records.insert(), rows)
            rows = []
    if rows:
        connection.execute(booking_records.insert(), rows)


def _rows(booking: Booking) -> Iterator[dict[str, Any]]:
    for kind, records in ((booking.incoming_kind, booking.incoming), ("removed", booking.outgoing)):
        for position, record in enumerate(records):
            yield {
                "booking_id": booking.booking_id,
                "kind": kind,
                "memory_id": record.entry.id,
                "position": position,
                "void": False,
                **encode(record)._asdict(),
            }


def load(connection: Connection, row: RowMapping) -> Booking:
    """Return the booking of a row with the records that count; MemoryNotFoundError when their content has expired."""
    if row["expired_at"] is not None:
        raise MemoryNotFoundError(f"booking_id: the content of {row['booking_id']} has expired")
    query = select(booking_records).where(
        booking_records.c.booking_id == row["booking_id"], booking_records.c.void.is_(False)
    )
    records = connection.execute(query.order_by(booking_records.c.position)).mappings().all()
    return Booking(
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


def header(booking: Booking) -> dict[str, Any]:
    """Return the row of a booking that is about to be prepared, without its times."""
    return {
        "booking_id": booking.booking_id,
        "run_id": booking.run_id,
        "company": booking.company,
        "agent_id": booking.agent_id,
        "seq": booking.seq,
        "reason": booking.reason,
        "incoming_kind": booking.incoming_kind,
        "state": "prepared",
        "reverses": booking.reverses,
    }
