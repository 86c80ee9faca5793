"""The agents whose memories are kept, and which of them are due."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, func, literal, select, update

from memcore.clock import Clock
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.agent import Agent, AgentSpec, checked_key, checked_time
from memcore.ledger.columns import Moment
from memcore.ledger.due import any_due, claim_due, count_late
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_new
from memcore.ledger.ledger_tables import agents
from memcore.ledger.likes import Likeness, likes
from memcore.ledger.run import Run
from memcore.ledger.slots import first_due
from memcore.models import ConsolidationInterval, MemoryLevel

#: Ids in one query: well below SQLite's limit of 32,766 values.
_IDS_PER_QUERY = 500


class Agents:
    """The agents table; every method is one short transaction.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def register(self, company: str, agent_ids: Iterable[str], *, interval: ConsolidationInterval) -> int:
        """Make agents known, with the company's interval, and return how many were new; known ones stay as they are."""
        company = checked_key("company", company)
        wanted = sorted({checked_key("agent_id", agent_id) for agent_id in agent_ids})
        # An agent stores often and is new once: the read keeps every later store away from the write lock.
        missing = self._missing(company, wanted)
        if not missing:
            return 0
        now = self._clock()
        rows = [_new_row(company, agent_id, now, first_due(company, agent_id, interval, now)) for agent_id in missing]
        with self._database.write() as connection:
            return len(insert_new(connection, agents, rows, key="agent_id"))

    def put(self, agent: AgentSpec) -> Agent:
        """Create the agent, or change the fields that were given; a changed interval plans a new slot."""
        given = agent.model_dump(mode="json", exclude_unset=True, exclude={"company", "agent_id"})
        now = self._clock()
        if "interval" in given:
            # None waits for the next tick, which knows the company's interval.
            own = agent.interval
            slot = first_due(agent.company, agent.agent_id, own, now) if own else None
            # Only a change plans anew: setting what is set already must not push an overdue agent to its next slot.
            changed = agents.c.interval.is_distinct_from(given["interval"])
            given["next_due_at"] = case((changed, literal(slot, Moment())), else_=agents.c.next_due_at)
        row = _new_row(agent.company, agent.agent_id, now, None)
        with self._database.write() as connection:
            insert_new(connection, agents, [row], key="agent_id")
            query = update(agents).where(_is(agent.company, agent.agent_id)).values(given or {"role": agents.c.role})
            return _agent(connection.execute(query.returning(agents)).mappings().one())

    def get(self, company: str, agent_id: str) -> Agent | None:
        """Return the agent, or None when it is unknown."""
        with self._database.read() as connection:
            row = connection.execute(select(agents).where(_is(company, agent_id))).mappings().one_or_none()
        return _agent(row) if row else None

    def levels(self, company: str, agent_ids: Iterable[str]) -> dict[str, MemoryLevel]:
        """Return the levels of those of the agents that have one of their own."""
        wanted, found = sorted(set(agent_ids)), dict[str, MemoryLevel]()
        with self._database.read() as connection:
            for start in range(0, len(wanted), _IDS_PER_QUERY):
                part = agents.c.agent_id.in_(wanted[start : start + _IDS_PER_QUERY])
                query = select(agents.c.agent_id, agents.c.level).where(agents.c.company == company, part)
                rows = connection.execute(query.where(agents.c.level.is_not(None)))
                found.update((agent_id, MemoryLevel(level)) for agent_id, level in rows)
        return found

    def like(self, company: str, agent_id: str, *, by: Likeness, level: MemoryLevel, limit: int) -> tuple[str, ...]:
        """Return the first agents of this one's role or department, in the order of their ids, without it.

        Left out are those that are paused, and those whose memories do not outlive a project.

        Args:
            company: whose agents.
            agent_id: whose like; one without a role or department has none.
            by: what they share.
            level: the company's, for agents that have none of their own.
            limit: most agents.
        """
        with self._database.read() as connection:
            return likes(connection, company, agent_id, by=by, level=level, limit=limit)

    def list(self, company: str, *, after: str | None = None, limit: int = 1000) -> tuple[Agent, ...]:
        """Return a company's agents in the order of their ids; ``after`` is the last id of the page before."""
        query = select(agents).where(agents.c.company == company).order_by(agents.c.agent_id).limit(limit)
        if after is not None:
            query = query.where(agents.c.agent_id > after)
        with self._database.read() as connection:
            return tuple(_agent(row) for row in connection.execute(query).mappings())

    def count(self, company: str) -> int:
        """Return how many agents a company has."""
        query = select(func.count()).select_from(agents).where(agents.c.company == company)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def late(self, company: str, *, interval: ConsolidationInterval, before: datetime) -> int:
        """Return how many agents that a tick may take have been due since before a time; interval as in claim_due."""
        with self._database.read() as connection:
            return count_late(connection, company, interval=interval, before=checked_time("before", before))

    def pause(self, company: str, agent_id: str) -> None:
        """Let no tick take this agent; MemoryNotFoundError when it is unknown."""
        self._change(company, agent_id, paused=True)

    def resume(self, company: str, agent_id: str) -> None:
        """Let ticks take this agent again; MemoryNotFoundError when it is unknown."""
        self._change(company, agent_id, paused=False)

    def set_due(self, company: str, agent_id: str, at: datetime) -> None:
        """Plan the agent for a time, at most one interval ahead; MemoryNotFoundError when it is unknown."""
        self._change(company, agent_id, next_due_at=checked_time("at", at))

    def claim_due(self, company: str, *, interval: ConsolidationInterval, limit: int) -> tuple[Run, ...]:
        """Take the agents that are due, oldest first, plan their next slots, and return the runs to send.

        The runs are committed when this returns: send them then, and let the sweep find what a crash left unsent.
        However many call at once, each due agent is taken by one of them. An agent whose run is still active gets no
        second one.

        Args:
            company: whose agents.
            interval: the company's, for agents that have none of their own.
            limit: most agents to take, at least 1.
        """
        if limit < 1:
            raise MemoryInputError("limit", f"is {limit}; it must be at least 1")
        now = self._clock()
        with self._database.read() as connection:
            if not any_due(connection, company, interval=interval, now=now):
                return ()
        with self._database.write() as connection:
            return claim_due(connection, company, interval=interval, limit=limit, now=now)

    def _missing(self, company: str, wanted: Sequence[str]) -> tuple[str, ...]:
        known: set[str] = set()
        with self._database.read() as connection:
            for start in range(0, len(wanted), _IDS_PER_QUERY):
                part = wanted[start : start + _IDS_PER_QUERY]
                query = select(agents.c.agent_id).where(agents.c.company == company, agents.c.agent_id.in_(part))
                known.update(connection.execute(query).scalars())
        return tuple(agent_id for agent_id in wanted if agent_id not in known)

    def _change(self, company: str, agent_id: str, **values: Any) -> None:
        with self._database.write() as connection:
            if not connection.execute(update(agents).where(_is(company, agent_id)).values(**values)).rowcount:
                raise MemoryNotFoundError(f"agent_id: {agent_id!r} is not registered with {company!r}")


def _is(company: str, agent_id: str) -> ColumnElement[bool]:
    return (agents.c.company == company) & (agents.c.agent_id == agent_id)


def _new_row(company: str, agent_id: str, now: datetime, due: datetime | None) -> dict[str, Any]:
    return {
        "company": company,
        "agent_id": agent_id,
        "retention_overrides": {},
        "paused": False,
        "registered_at": now,
        "next_due_at": due,
    }


def _agent(row: Any) -> Agent:
    return Agent.model_validate(dict(row))
