"""Trajectories: one short record of each finished task, append-only, read newest first."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import Field
from sqlalchemy import ColumnElement, and_, func, select, true

from memcore import ids
from memcore.ledger.database import CompanyRecords, Row, checked_key, insert_one, record_of
from memcore.ledger.learning.lessons import open_lesson
from memcore.ledger.rows import kept_origin, origin_of, pack, unpack
from memcore.ledger.tables import INTERRUPTIONS, IS_EVIDENCE, trajectories
from memcore.models.base import Frozen
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason
from memcore.models.memory import BoundedTime, NotBlankText, StoredKey
from memcore.models.origin import OWN, Origin

#: Fewest calls of tools that are a chain: a single one says nothing about the order of things.
CHAIN_CALLS = 2


class Trajectory(Frozen):
    """A finished task in short, from which skills are learned; its raw experience and its memory have the same id.

    It has no error category exactly when it is a success (see ExecutionTrace.failure), every tool called in order, one
    name for each call, and no quality when nobody looked; signatures are the forms of the calls whose arguments are
    known. The origin is that of the job that reported it.
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
    signatures: tuple[str, ...] = ()
    started_at: BoundedTime | None = None
    ended_at: BoundedTime
    origin: Origin = Field(default=OWN, exclude=True)

    @property
    def tools_key(self) -> str | None:
        """A hash of the tools in the order of their calls, by which executions are compared; None below two calls."""
        return ids.tools_key(self.tools) if len(self.tools) >= CHAIN_CALLS else None

    @classmethod
    def of(cls, trace: ExecutionTrace, *, trace_id: str, agent_id: str, origin: Origin = OWN) -> Self:
        """Return what is kept of a trace."""
        own: Row = {"id": trace_id, "agent_id": agent_id, "turn_count": len(trace.turns), "origin": origin}
        own |= {"outcome": trace.termination_reason, "error_category": trace.failure}
        return cls(**own, **{name: getattr(trace, name) for name in cls.model_fields.keys() - own.keys()})


#: Most trajectories of a page: most have about 1 KB, none more than 1 MiB.
MAX_PAGE = 128

#: What stands in columns of its own.
_COLUMNS = frozenset({"agent_id", "task_id", "task_type", "outcome", "error_category", "quality", "ended_at"})


class Trajectories(CompanyRecords[Trajectory]):
    """The trajectories table, append-only.

    A window is half open: ``since`` belongs to it and ``until`` does not; without them it has no end on that side.
    """

    _table = trajectories
    _model = Trajectory
    _newest_by = (trajectories.c.ended_at, trajectories.c.trajectory_id)
    _page_size = MAX_PAGE

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
            "origin": kept_origin(trajectory.origin),
            "body": pack("trajectory", body),
        }
        with self._database.write() as connection:
            is_new = insert_one(connection, trajectories, row)
            if is_new and lesson_at is not None:
                open_lesson(connection, company, trajectory.agent_id, trajectory.id, at=lesson_at)
            return is_new

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
        query = select(trajectories).where(_window(company, agent_id, since, until))
        return self._page(query, before=before, limit=limit)

    def stream(
        self, company: str, *, agent_id: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[Trajectory]:
        """Yield those of a window, newest first; no more than a page is held, and no transaction stays open."""
        return self._stream(_window(company, agent_id, since, until))

    def stream_added(self, company: str, *, since: datetime, until: datetime) -> Iterator[Trajectory]:
        """Yield those from which skills are learned (IS_EVIDENCE), as :meth:`stream` does."""
        return self._stream(_window(company, None, since, until) & IS_EVIDENCE)

    def _stream(self, which: ColumnElement[bool]) -> Iterator[Trajectory]:
        last: Trajectory | None = None
        while page := self._page(select(trajectories).where(which), before=last, limit=MAX_PAGE):
            yield from page
            last = page[-1]

    def count(
        self,
        company: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        with_interrupted: bool = True,
    ) -> int:
        """Return how many a window has, with those that were interrupted or without."""
        which = _window(company, None, since, until)
        if not with_interrupted:
            which &= trajectories.c.outcome.not_in(INTERRUPTIONS)
        return self._database.count(trajectories, which)

    def count_added(self, company: str, *, since: datetime, until: datetime) -> int:
        """Return of how many of a window skills are learned."""
        which = _window(company, None, since, until) & IS_EVIDENCE
        return self._database.count(trajectories, which)

    def failures_before(self, company: str, trajectory: Trajectory, *, limit: int) -> tuple[Trajectory, ...]:
        """Return the newest attempts of an agent at the same task that failed before this one, oldest first."""
        earlier = _window(company, trajectory.agent_id, None, trajectory.ended_at)
        failed = trajectories.c.error_category.is_not(None) & trajectories.c.outcome.not_in(INTERRUPTIONS)
        query = select(trajectories).where(earlier, failed, trajectories.c.task_id == trajectory.task_id)
        return self._page(query, before=None, limit=limit)[::-1]

    def quality_rank(self, company: str, agent_id: str, quality: float, *, since: datetime) -> tuple[int, int]:
        """Return how many of an agent's successes since then have at most this quality, and how many have one."""
        of_success = and_(trajectories.c.error_category.is_(None), trajectories.c.quality.is_not(None))
        at_most = func.count().filter(trajectories.c.quality <= quality)
        query = select(at_most.label("reached"), func.count().label("all")).where(
            _window(company, agent_id, since, None), of_success
        )
        (counts,) = self._database.rows(query)
        return counts["reached"], counts["all"]

    def expire(self, company: str, *, before: datetime) -> int:
        """Erase the trajectories of tasks that ended before then, and return how many there were."""
        return self._delete(_window(company, None, None, before))

    def _record(self, row: Mapping[Any, Any]) -> Trajectory:
        own = {"id": row["trajectory_id"], "origin": origin_of(row)}
        return record_of(Trajectory, row, **unpack("a trajectory", row["body"]), **own)

    def _position(self, record: Trajectory) -> tuple[Any, ...]:
        return record.ended_at, record.id


def _window(company: str, agent_id: str | None, since: datetime | None, until: datetime | None) -> ColumnElement[bool]:
    return and_(
        trajectories.c.company == company,
        true() if agent_id is None else trajectories.c.agent_id == agent_id,
        true() if since is None else trajectories.c.ended_at >= since,
        true() if until is None else trajectories.c.ended_at < until,
    )
