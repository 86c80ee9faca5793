"""What a tick does inside its one transaction; its cost grows with the agents due, never with the agents known."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, exists, func, or_, select, update

from memcore.ledger.insert import insert_new
from memcore.ledger.ledger_tables import COMPANY_INTERVAL, OWN_INTERVAL, agents, runs
from memcore.ledger.run import NewRun, Run
from memcore.ledger.run_rows import new_row, run_of
from memcore.ledger.slots import LENGTHS, first_due
from memcore.ledger.unnested import unnested
from memcore.models import ConsolidationInterval

#: Agents with an interval of their own that has slots.
OWN = OWN_INTERVAL & (agents.c.interval != ConsolidationInterval.NEVER)


def any_due(connection: Connection, company: str, *, interval: ConsolidationInterval, now: datetime) -> bool:
    """Say whether a tick has anything to do: one query that takes no lock, for the many ticks that have not."""
    scopes = [(OWN, agents.c.next_due_at <= now)]
    if interval is not ConsolidationInterval.NEVER:
        scopes += [(COMPANY_INTERVAL, due) for due in (agents.c.next_due_at <= now, *_misplaced(interval, now))]
    found = [exists().where(agents.c.company == company, which, due) for which, due in scopes]
    return bool(connection.execute(select(or_(*found))).scalar_one())


def count_late(connection: Connection, company: str, *, interval: ConsolidationInterval, before: datetime) -> int:
    """Count the agents that have been due since before a time."""
    scopes = [OWN] if interval is ConsolidationInterval.NEVER else [OWN, COMPANY_INTERVAL]
    late = [
        select(func.count()).where(agents.c.company == company, which, agents.c.next_due_at < before)
        for which in scopes
    ]
    return sum(connection.execute(query).scalar_one() for query in late)


def claim_due(
    connection: Connection, company: str, *, interval: ConsolidationInterval, limit: int, now: datetime
) -> tuple[Run, ...]:
    """Take up to ``limit`` due agents, oldest first, and return the queued runs that were inserted for them."""
    due = _due(connection, company, OWN, now, limit)
    if interval is not ConsolidationInterval.NEVER:
        _plan(connection, company, interval=interval, limit=limit, now=now)
        due += _due(connection, company, COMPANY_INTERVAL, now, limit)
    due = sorted(due, key=lambda row: (row["next_due_at"], row["agent_id"]))[:limit]
    if not due:
        return ()
    # The slot after now, not the one after the last: an agent that slept through ten slots gets one run.
    _advance(connection, company, due, interval=interval, now=now)
    rows = [
        new_row(NewRun(company=company, agent_id=row["agent_id"], planned_at=row["next_due_at"]), now=now)
        for row in due
    ]
    # An agent whose run is active keeps that one: the insert skips it, and its slot has moved on all the same, or else
    # a few stuck agents would stand first in every tick and starve the others.
    inserted = insert_new(connection, runs, sorted(rows, key=lambda row: row["run_id"]), key="run_id")
    return tuple(run_of(row) for row in rows if row["run_id"] in inserted)


def _due(
    connection: Connection, company: str, which: ColumnElement[bool], now: datetime, limit: int
) -> list[dict[str, Any]]:
    query = _agents(company, which).where(agents.c.next_due_at <= now).order_by(agents.c.next_due_at).limit(limit)
    return [dict(row) for row in connection.execute(query.with_for_update(skip_locked=True)).mappings()]


def _plan(connection: Connection, company: str, *, interval: ConsolidationInterval, limit: int, now: datetime) -> None:
    for misplaced in _misplaced(interval, now):
        query = _agents(company, COMPANY_INTERVAL).where(misplaced).limit(limit)
        rows = [dict(row) for row in connection.execute(query.with_for_update(skip_locked=True)).mappings()]
        _advance(connection, company, rows, interval=interval, now=now)


def _misplaced(interval: ConsolidationInterval, now: datetime) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    # An agent that follows the company and has no slot yet, or one further away than an interval, is planned anew: the
    # second is how a company that goes from weekly to hourly is heard before the week is over.
    return agents.c.next_due_at.is_(None), agents.c.next_due_at > now + LENGTHS[interval]


def _agents(company: str, which: ColumnElement[bool]) -> Select[Any, Any, Any]:
    columns = (agents.c.agent_id, agents.c.interval, agents.c.next_due_at)
    return select(*columns).where(agents.c.company == company, which)


def _advance(
    connection: Connection, company: str, rows: list[dict[str, Any]], *, interval: ConsolidationInterval, now: datetime
) -> None:
    if not rows:
        return
    values = [
        {
            "of_agent": row["agent_id"],
            "slot": first_due(company, row["agent_id"], ConsolidationInterval(row["interval"] or interval), now),
        }
        for row in rows
    ]
    query = update(agents).where(agents.c.company == company)
    if connection.dialect.name == "postgresql":
        given = unnested({"of_agent": agents.c.agent_id, "slot": agents.c.next_due_at}, values)
        connection.execute(query.where(agents.c.agent_id == given.c.of_agent).values(next_due_at=given.c.slot))
    else:
        query = query.where(agents.c.agent_id == bindparam("of_agent"))
        connection.execute(query.values(next_due_at=bindparam("slot")), values)
