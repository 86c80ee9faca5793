"""What a booking that is carried out means for the archive, inside the transaction that settles it."""

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, select, update

from memcore.ledger.archive_tables import OUT, archive
from memcore.ledger.journal_tables import booking_records


def follow(connection: Connection, booking: RowMapping, *, at: datetime) -> None:
    """Take away what was archived and turned out to stay; note what came back; of an undone return, what is out again.

    Args:
        connection: holds the transaction in which the booking's void records have just been marked.
        booking: its row.
        at: now.
    """
    booking_id, reverses = booking["booking_id"], booking["reverses"]
    removed = booking_records.c.kind == "removed"
    stayed = _entries(booking, removed & booking_records.c.void)
    connection.execute(delete(archive).where(stayed, archive.c.booking_id == booking_id))
    came = _entries(booking, ~removed & booking_records.c.void.is_(False))
    connection.execute(update(archive).where(came, OUT).values(returned_by=booking_id, returned_at=at))
    if reverses is not None:
        went = _entries(booking, removed & booking_records.c.void.is_(False))
        again = update(archive).where(went, archive.c.returned_by == reverses)
        connection.execute(again.values(returned_by=None, returned_at=None))


def _entries(booking: RowMapping, which: ColumnElement[bool]) -> ColumnElement[bool]:
    ids = select(booking_records.c.memory_id).where(booking_records.c.booking_id == booking["booking_id"], which)
    mine: ColumnElement[bool] = (archive.c.company == booking["company"]) & (archive.c.agent_id == booking["agent_id"])
    return mine & archive.c.original_id.in_(ids)
