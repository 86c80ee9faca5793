"""Tombstones: which ids were removed, and when, so that late redeliveries are skipped; and holds on ids."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, case, delete, select

from memcore.ledger.database import insert_for
from memcore.ledger.journal_tables import holds, tombstones

#: Ids in one query: well below SQLite's limit of 32,766 values.
IDS_PER_QUERY = 500


def add_tombstones(connection: Connection, ids: Iterable[str], *, booking_id: str, at: datetime) -> None:
    """Add tombstones for these ids; an existing one gets the new time."""
    rows = [{"memory_id": memory_id, "booking_id": booking_id, "buried_at": at} for memory_id in sorted(ids)]
    if not rows:
        return
    statement = insert_for(connection, tombstones)
    new = {"booking_id": statement.excluded.booking_id, "buried_at": statement.excluded.buried_at}
    connection.execute(statement.on_conflict_do_update(index_elements=["memory_id"], set_=new), rows)


def remove_tombstones(connection: Connection, ids: Iterable[str]) -> None:
    """Delete the tombstones of these ids: they come back."""
    for part in id_chunks(sorted(ids)):
        connection.execute(delete(tombstones).where(tombstones.c.memory_id.in_(part)))


def tombstoned(connection: Connection, sent: Mapping[str, datetime]) -> frozenset[str]:
    """Return those of the ids that were removed at or after the time they were sent."""
    found: set[str] = set()
    for part in id_chunks(sorted(sent)):
        query = select(tombstones.c.memory_id, tombstones.c.buried_at).where(tombstones.c.memory_id.in_(part))
        found.update(memory_id for memory_id, at in connection.execute(query) if at >= sent[memory_id])
    return frozenset(found)


def id_chunks(ids: list[str]) -> Iterable[list[str]]:
    """Cut a list of ids into pieces that one query can carry."""
    return (ids[start : start + IDS_PER_QUERY] for start in range(0, len(ids), IDS_PER_QUERY))


def hold_ids(
    connection: Connection, company: str, agent_id: str, ids: Iterable[str], *, until: datetime, now: datetime
) -> None:
    """Hold these ids until a time, or longer where a hold already lasts longer; the agent's past holds are dropped."""
    connection.execute(delete(holds).where(_holds_of(company, agent_id), holds.c.until <= now))
    rows = [
        {"company": company, "agent_id": agent_id, "memory_id": memory_id, "until": until}
        for memory_id in sorted(set(ids))
    ]
    if not rows:
        return
    statement = insert_for(connection, holds)
    longer = case((statement.excluded.until > holds.c.until, statement.excluded.until), else_=holds.c.until)
    keys = ["company", "agent_id", "memory_id"]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_={"until": longer}), rows)


def held_ids(connection: Connection, company: str, agent_id: str, *, now: datetime) -> frozenset[str]:
    """Return the agent's ids that are held now."""
    query = select(holds.c.memory_id).where(_holds_of(company, agent_id), holds.c.until > now)
    return frozenset(connection.execute(query).scalars())


def _holds_of(company: str, agent_id: str) -> ColumnElement[bool]:
    return (holds.c.company == company) & (holds.c.agent_id == agent_id)
