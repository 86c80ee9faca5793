"""Holds: memories that the next runs leave alone for a while, because a person has just restored them."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, case, delete, select

from memcore.ledger.insert import insert_for
from memcore.ledger.journal_tables import holds


def hold(
    connection: Connection, company: str, agent_id: str, ids: Iterable[str], *, until: datetime, now: datetime
) -> None:
    """Hold these ids until a time, or longer where a hold already lasts longer; the agent's past holds are dropped."""
    connection.execute(delete(holds).where(_of(company, agent_id), holds.c.until <= now))
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


def held(connection: Connection, company: str, agent_id: str, *, now: datetime) -> frozenset[str]:
    """Return the agent's ids that are held now."""
    query = select(holds.c.memory_id).where(_of(company, agent_id), holds.c.until > now)
    return frozenset(connection.execute(query).scalars())


def _of(company: str, agent_id: str) -> ColumnElement[bool]:
    return (holds.c.company == company) & (holds.c.agent_id == agent_id)
