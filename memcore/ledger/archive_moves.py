"""What a booking means for the archive: inside the transaction that settles it, and the one that drops its content."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, select, update

from memcore.ledger.archive_tables import OUT, archive
from memcore.ledger.journal_tables import booking_records, bookings, tombstones

#: Reasons for which a memory was to be deleted. What a summary that left for one of them replaced goes after it.
_DELETING = ("expired", "retention", "ended", "deleted")


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


def drop_replaced(connection: Connection, booking_ids: Collection[str]) -> None:
    """Drop what lies in the archive because of summaries that these bookings deleted for good.

    A retention rule, an expiry, an end or a person deleted the summary: the texts behind it were to go no later. A
    summary that came back since has no tombstone of the booking any more.

    Args:
        connection: holds the transaction in which the journal lets go of the bookings; no undo brings one back.
        booking_ids: at most a few hundred.
    """
    removed, made = booking_records.alias(), booking_records.alias()
    merges = (
        select(made.c.booking_id)
        .join_from(bookings, removed, removed.c.booking_id == bookings.c.booking_id)
        .join(
            tombstones,
            (tombstones.c.memory_id == removed.c.memory_id) & (tombstones.c.booking_id == bookings.c.booking_id),
        )
        .join(made, made.c.memory_id == removed.c.memory_id)
        .where(bookings.c.booking_id.in_(booking_ids), bookings.c.reason.in_(_DELETING))
        .where(removed.c.kind == "removed", made.c.kind == "created")
    )
    # By run first: entries have an index by that.
    runs = select(bookings.c.run_id).where(bookings.c.booking_id.in_(merges))
    connection.execute(delete(archive).where(OUT, archive.c.run_id.in_(runs), archive.c.booking_id.in_(merges)))


def _entries(booking: RowMapping, which: ColumnElement[bool]) -> ColumnElement[bool]:
    ids = select(booking_records.c.memory_id).where(booking_records.c.booking_id == booking["booking_id"], which)
    mine: ColumnElement[bool] = (archive.c.company == booking["company"]) & (archive.c.agent_id == booking["agent_id"])
    return mine & archive.c.original_id.in_(ids)
