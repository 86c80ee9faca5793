"""Tombstones: which ids were removed, and when, so that a late redelivery does not raise the dead."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection, delete, select

from memcore.ledger.insert import insert_for
from memcore.ledger.journal_tables import tombstones

#: Ids in one query: well below SQLite's limit of 32,766 values.
IDS_PER_QUERY = 500


def bury(connection: Connection, ids: Iterable[str], *, booking_id: str, at: datetime) -> None:
    """Note that these ids are removed; an id that was buried before gets the new time."""
    rows = [{"memory_id": memory_id, "booking_id": booking_id, "buried_at": at} for memory_id in sorted(ids)]
    if not rows:
        return
    statement = insert_for(connection, tombstones)
    new = {"booking_id": statement.excluded.booking_id, "buried_at": statement.excluded.buried_at}
    connection.execute(statement.on_conflict_do_update(index_elements=["memory_id"], set_=new), rows)


def raise_up(connection: Connection, ids: Iterable[str]) -> None:
    """Forget that these ids were removed: they come back."""
    for part in parts(sorted(ids)):
        connection.execute(delete(tombstones).where(tombstones.c.memory_id.in_(part)))


def buried(connection: Connection, sent: Mapping[str, datetime]) -> frozenset[str]:
    """Return those of the ids that were removed at or after the time they were sent."""
    found: set[str] = set()
    for part in parts(sorted(sent)):
        query = select(tombstones.c.memory_id, tombstones.c.buried_at).where(tombstones.c.memory_id.in_(part))
        found.update(memory_id for memory_id, at in connection.execute(query) if at >= sent[memory_id])
    return frozenset(found)


def parts(ids: list[str]) -> Iterable[list[str]]:
    """Cut a list of ids into pieces that one query can carry."""
    return (ids[start : start + IDS_PER_QUERY] for start in range(0, len(ids), IDS_PER_QUERY))
