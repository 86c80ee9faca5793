"""Trajectories: one short record of each finished task, append-only, read newest first."""

from collections.abc import Iterator
from datetime import datetime
from typing import Self

from pydantic import Field
from sqlalchemy import ColumnElement, RowMapping, and_, delete, func, select, true

from memcore import ids
from memcore.ledger.database import Repository, checked_key, equals, insert_one, newest_first, pack, record_of, unpack
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
        error_category: None exactly of a success (see ExecutionTrace.failure).
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

#: What stands in columns of its own.
_COLUMNS = frozenset({"agent_id", "task_id", "task_type", "outcome", "error_category", "quality", "ended_at"})


class Trajectories(Repository):
    """The trajectories table, append-only.

    A window is half open: ``since`` belongs to it and ``until`` does not; without them it has no end on that side.
    """

    def append(self, company: str, trajectory: Trajectory, *, lesson_at: datetime | None = None) -> bool:
        """Keep the trajectory and return True; False when its id is there already, and stays as it was.

        ``lesson_at`` is now, if its lesson is to be drawn: both rows are there, or neither is.
        Raises MemoryInputError when a key is too long, or a text is no valid Unicode.
        """
        body = trajectory.model_dump(mode="json", exclude={"id", *_COLUMNS}, exclude_defaults=True)
        row = {
            "company": checked_key("company", company),
            "trajectory_id": trajectory.id,
            "tools_key": trajectory.tools_key,
            **trajectory.model_dump(include=set(_COLUMNS)),
            "outcome": str(trajectory.outcome),
            "body": pack("trajectory", body),
        }
        with self._database.write() as connection:
            is_new = insert_one(connection, trajectories, row)
            if is_new and lesson_at is not None:
                open_lesson(connection, company, trajectory.agent_id, trajectory.id, at=lesson_at)
            return is_new

    def get(self, company: str, trajectory_id: str) -> Trajectory | None:
        """Return the trajectory, or None when this company has none with that id."""
        is_it = equals(trajectories, company=company, trajectory_id=trajectory_id)
        row = self._database.row(select(trajectories).where(is_it))
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
        """Return at most 128 of a window, newest first, of one agent or of all; ``before`` ends the page before."""
        at, key = trajectories.c.ended_at, trajectories.c.trajectory_id
        query = select(trajectories).where(_window(company, agent_id, since, until))
        last = None if before is None else (before.ended_at, before.id)
        query = newest_first(query, at, key, before=last, limit=min(limit, MAX_PAGE))
        return tuple(map(_trajectory, self._database.rows(query)))

    def stream(
        self, company: str, *, agent_id: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[Trajectory]:
        """Yield those of a window, newest first; no more than a page is held, and no transaction stays open."""
        last: Trajectory | None = None
        while page := self.page(company, agent_id=agent_id, since=since, until=until, before=last):
            yield from page
            last = page[-1]

    def count(
        self, company: str, *, agent_id: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> int:
        """Return how many a window has, of one agent or of all."""
        return self._database.count(trajectories, _window(company, agent_id, since, until))

    def quality_rank(self, company: str, agent_id: str, quality: float, *, since: datetime) -> tuple[int, int]:
        """Return how many of an agent's successes since then have at most this quality, and how many have one."""
        of_success = and_(trajectories.c.error_category.is_(None), trajectories.c.quality.is_not(None))
        at_most = func.count().filter(trajectories.c.quality <= quality)
        query = select(at_most.label("reached"), func.count().label("all")).where(
            _window(company, agent_id, since, None), of_success
        )
        (counts,) = self._database.rows(query)
        return counts["reached"], counts["all"]

    def delete_agent(self, company: str, agent_id: str) -> int:
        """Erase all trajectories of an agent, for good, and return how many there were."""
        return self._database.change(delete(trajectories).where(_window(company, agent_id, None, None)))

    def expire(self, company: str, *, before: datetime) -> int:
        """Erase the trajectories of tasks that ended before then, and return how many there were."""
        return self._database.change(delete(trajectories).where(_window(company, None, None, before)))


def _window(company: str, agent_id: str | None, since: datetime | None, until: datetime | None) -> ColumnElement[bool]:
    return and_(
        trajectories.c.company == company,
        true() if agent_id is None else trajectories.c.agent_id == agent_id,
        true() if since is None else trajectories.c.ended_at >= since,
        true() if until is None else trajectories.c.ended_at < until,
    )


def _trajectory(row: RowMapping) -> Trajectory:
    return record_of(Trajectory, row, **unpack("a trajectory", row["body"]), id=row["trajectory_id"])
