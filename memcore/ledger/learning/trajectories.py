"""Trajectories: one short record of each finished task, append-only, read newest first."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Self

from pydantic import Field
from sqlalchemy import ColumnElement, RowMapping, and_, delete, func, or_, select, true

from memcore import ids
from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.ledger.database import Database, checked_key, insert_new
from memcore.ledger.learning.lessons import open_lesson
from memcore.ledger.tables import trajectories
from memcore.models.base import Frozen
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason
from memcore.models.memory import BoundedTime, NotBlankText, StoredKey

#: Fewest calls of tools that are a chain: a single one says nothing about the order of things.
CHAIN_CALLS = 2


class Trajectory(Frozen):
    """A finished task in short, from which skills are learned; its raw experience and its memory have the same id.

    Attributes:
        outcome: why the task ended.
        error_category: None exactly of a success (see ExecutionTrace.failure).
        turn_count: turns taken.
        tokens: of all turns.
        tools: every tool called, in order, one name for each call.
        quality: 0 to 10, None when nobody looked.
    """

    id: StoredKey
    agent_id: StoredKey
    task_id: StoredKey
    task_title: NotBlankText
    task_description: NotBlankText | None = None
    task_type: StoredKey | None = None
    outcome: TerminationReason
    error_category: StoredKey | None = None
    error_message: NotBlankText | None = None
    recovery: Recovery | None = None
    retries: int = 0
    quality: float | None = Field(default=None, ge=0.0, le=10.0)
    turn_count: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    tools: tuple[StoredKey, ...] = ()
    started_at: BoundedTime | None = None
    ended_at: BoundedTime

    @property
    def tools_key(self) -> str | None:
        """A hash of the tools in the order of their calls, by which executions are compared; None below two calls."""
        return ids.tools_key(self.tools) if len(self.tools) >= CHAIN_CALLS else None

    @classmethod
    def of(cls, trace: ExecutionTrace, *, trace_id: str, agent_id: str) -> Self:
        """Return what is kept of a trace."""
        return cls(
            id=trace_id,
            agent_id=agent_id,
            task_id=trace.task_id,
            task_title=trace.task_title,
            task_description=trace.task_description,
            task_type=trace.task_type,
            outcome=trace.termination_reason,
            error_category=trace.failure,
            error_message=trace.error_message,
            recovery=trace.recovery,
            retries=trace.retries,
            quality=trace.quality,
            turn_count=len(trace.turns),
            tokens=trace.tokens,
            tools=trace.tools,
            started_at=trace.started_at,
            ended_at=trace.ended_at,
        )


#: Most trajectories of a page: most have about 1 KB, none more than 1 MiB.
MAX_PAGE = 128

#: The form of the body; a reader refuses a newer one rather than guess.
_VERSION = 1

#: What stands in columns of its own.
_COLUMNS = frozenset({"id", "agent_id", "task_id", "task_type", "outcome", "error_category", "quality", "ended_at"})


class Trajectories:
    """The trajectories table, append-only; every method is one short transaction.

    A window is half open: ``since`` belongs to it and ``until`` does not; without them it has no end on that side.

    Args:
        database: the ledger.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, company: str, trajectory: Trajectory, *, lesson_at: datetime | None = None) -> bool:
        """Keep the trajectory and return True; False when its id is there already, and stays as it was.

        Args:
            company: whose.
            trajectory: what is kept.
            lesson_at: now, if its lesson is to be drawn: both rows are there, or neither is.

        Raises:
            MemoryInputError: a key is too long, or a text is no valid Unicode.
        """
        row = {
            "company": checked_key("company", company),
            "trajectory_id": trajectory.id,
            "agent_id": trajectory.agent_id,
            "task_id": trajectory.task_id,
            "task_type": trajectory.task_type,
            "outcome": str(trajectory.outcome),
            "error_category": trajectory.error_category,
            "tools_key": trajectory.tools_key,
            "quality": trajectory.quality,
            "ended_at": trajectory.ended_at,
            "body": _encoded(trajectory),
        }
        with self._database.write() as connection:
            is_new = bool(insert_new(connection, trajectories, [row], key="trajectory_id"))
            if is_new and lesson_at is not None:
                open_lesson(connection, company, trajectory.agent_id, trajectory.id, at=lesson_at)
            return is_new

    def get(self, company: str, trajectory_id: str) -> Trajectory | None:
        """Return the trajectory, or None when this company has none with that id."""
        is_it = and_(trajectories.c.company == company, trajectories.c.trajectory_id == trajectory_id)
        with self._database.read() as connection:
            row = connection.execute(select(trajectories).where(is_it)).mappings().one_or_none()
        return _trajectory(row) if row else None

    def page(
        self,
        company: str,
        *,
        agent_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: Trajectory | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[Trajectory, ...]:
        """Return those of a window, newest first, of one agent or of all.

        Args:
            company: the company.
            agent_id: whose; None for everybody's.
            since: tasks that ended then or later.
            until: tasks that ended earlier.
            before: the last one of the page before.
            limit: at most 128.
        """
        at, key = trajectories.c.ended_at, trajectories.c.trajectory_id
        query = select(trajectories).where(_window(company, agent_id, since, until))
        if before is not None:
            # The first condition says nothing new, but an index can begin there.
            query = query.where(at <= before.ended_at, or_(at < before.ended_at, key < before.id))
        query = query.order_by(at.desc(), key.desc()).limit(min(limit, MAX_PAGE))
        with self._database.read() as connection:
            return tuple(_trajectory(row) for row in connection.execute(query).mappings())

    def stream(
        self,
        company: str,
        *,
        agent_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Trajectory]:
        """Yield those of a window, newest first; no more than a page is held, and no transaction stays open."""
        last: Trajectory | None = None
        while page := self.page(company, agent_id=agent_id, since=since, until=until, before=last):
            yield from page
            last = page[-1]

    def count(
        self,
        company: str,
        *,
        agent_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> int:
        """Return how many a window has, of one agent or of all."""
        query = select(func.count()).select_from(trajectories).where(_window(company, agent_id, since, until))
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def quality_rank(self, company: str, agent_id: str, quality: float, *, since: datetime) -> tuple[int, int]:
        """Return how many of an agent's successes since then have at most this quality, and how many have one."""
        of_success = and_(trajectories.c.error_category.is_(None), trajectories.c.quality.is_not(None))
        at_most = func.count().filter(trajectories.c.quality <= quality)
        query = select(at_most, func.count()).where(_window(company, agent_id, since, None), of_success)
        with self._database.read() as connection:
            reached, all_of_them = connection.execute(query).one()
        return reached, all_of_them

    def delete_agent(self, company: str, agent_id: str) -> int:
        """Erase all trajectories of an agent, for good, and return how many there were."""
        with self._database.write() as connection:
            return connection.execute(delete(trajectories).where(_window(company, agent_id, None, None))).rowcount

    def expire(self, company: str, *, before: datetime) -> int:
        """Erase the trajectories of tasks that ended before then, and return how many there were."""
        with self._database.write() as connection:
            return connection.execute(delete(trajectories).where(_window(company, None, None, before))).rowcount


def _window(company: str, agent_id: str | None, since: datetime | None, until: datetime | None) -> ColumnElement[bool]:
    return and_(
        trajectories.c.company == company,
        true() if agent_id is None else trajectories.c.agent_id == agent_id,
        true() if since is None else trajectories.c.ended_at >= since,
        true() if until is None else trajectories.c.ended_at < until,
    )


def _encoded(trajectory: Trajectory) -> bytes:
    body = {"version": _VERSION, **trajectory.model_dump(mode="json", exclude=set(_COLUMNS), exclude_defaults=True)}
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise MemoryInputError("trajectory", "must be valid Unicode text") from None


def _trajectory(row: RowMapping) -> Trajectory:
    body: dict[str, Any] = json.loads(row["body"])
    version = body.pop("version")
    if version != _VERSION:
        raise MemoryRetrievalError(f"a trajectory has form {version}; this release reads form {_VERSION}")
    columns = {name: row[name] for name in _COLUMNS - {"id"}}
    return Trajectory.model_validate({**body, **columns, "id": row["trajectory_id"]})
