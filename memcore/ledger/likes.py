"""An agent's like: who shares its role or its department, and can learn from it."""

from typing import Literal

from sqlalchemy import Connection, or_, select

from memcore.ledger.ledger_tables import agents
from memcore.models import MemoryLevel

#: What agents share.
Likeness = Literal["role", "department"]


def likes(
    connection: Connection, company: str, agent_id: str, *, by: Likeness, level: MemoryLevel, limit: int
) -> tuple[str, ...]:
    """Return the first others in the order of their ids that are not paused and keep what they learn.

    Args:
        connection: of the ledger.
        company: whose agents.
        agent_id: whose like.
        by: what they share.
        level: the company's, for agents that have none of their own.
        limit: most agents.
    """
    shared = agents.c[by]
    own = select(shared).where(agents.c.company == company, agents.c.agent_id == agent_id)
    value = connection.execute(own).scalar_one_or_none()
    if value is None:
        return ()
    keeps = agents.c.level == str(MemoryLevel.PERSISTENT)
    query = (
        select(agents.c.agent_id)
        .where(agents.c.company == company, shared == value, agents.c.agent_id != agent_id)
        .where(agents.c.paused.is_(False), or_(keeps, agents.c.level.is_(None)) if _is_kept(level) else keeps)
        .order_by(agents.c.agent_id)
        .limit(limit)
    )
    return tuple(connection.execute(query).scalars())


def _is_kept(level: MemoryLevel) -> bool:
    return level is MemoryLevel.PERSISTENT
