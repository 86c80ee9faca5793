"""Lessons: the tasks that wait for a lesson, and the outcome of the others."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy import Connection, and_, func, select, update

from memcore.jobs import LessonPayload
from memcore.ledger.database import Row, checked_key, equals, id_chunks, insert_one, record_of
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.tables import OF_ADDED_AGENT, UNPROPAGATED, lessons, trajectories
from memcore.ledger.work_items import Work, WorkKey, WorkRecord, add_items, new_item
from memcore.models.memory import BoundedTime


class Lesson(WorkRecord):
    """A lesson's row; its id is the trajectory's.

    Attributes:
        outcome: one word, such as stored or low_confidence; None while it is not drawn.
        text: the lesson (memcore.procedural.records) as JSON; None where there is none.
        task_id: the task that taught it; None where it was not looked up, or is kept no longer.
        propagated_at: when it was propagated to the agent's peers, or found to have none.
    """

    lesson_id: str
    agent_id: str
    outcome: str | None = None
    memory_id: str | None = None
    confidence: float | None = None
    text: str | None = Field(default=None, repr=False)
    task_id: str | None = None
    created_at: BoundedTime
    drawn_at: BoundedTime | None = None
    propagated_at: BoundedTime | None = None


def open_lesson(connection: Connection, company: str, agent_id: str, lesson_id: str, *, at: datetime) -> bool:
    """Insert a task's lesson, to be drawn, and return True; False when it is there already.

    Raises MemoryInputError when a key is too long.
    """
    keys = {"company": company, "lesson_id": lesson_id, "agent_id": agent_id}
    row: Row = {name: checked_key(name, key) for name, key in keys.items()}
    name = WorkKey(row["company"], LessonPayload.task, row["lesson_id"])
    item = new_item(name, LessonPayload(**row), now=at, agent_id=row["agent_id"])
    return bool(add_items(connection, [item])) and insert_one(connection, lessons, row | {"created_at": at})


#: Most lessons of a page.
MAX_PAGE = 128

#: A lesson, and the trajectory that it is drawn from.
_SAME = and_(lessons.c.company == trajectories.c.company, lessons.c.lesson_id == trajectories.c.trajectory_id)


class Lessons(Work[Lesson]):
    """The lessons table and its work items."""

    _kind = LessonPayload.task
    _table = lessons
    _model = Lesson
    _newest_by = (lessons.c.created_at, lessons.c.lesson_id)
    _page_size = MAX_PAGE

    def finish(
        self,
        company: str,
        lesson_id: str,
        token: str,
        outcome: str,
        *,
        memory_id: str | None = None,
        confidence: float | None = None,
        text: str | None = None,
    ) -> Lesson:
        """Save the outcome of a leased lesson. Raises LeaseLostError; MemoryNotFoundError when it is forgotten."""
        own = {
            "outcome": outcome,
            "memory_id": memory_id,
            "confidence": confidence,
            "drawn_at": self._clock(),
            "body": None if text is None else text.encode(),
        }
        return self._leased(company, lesson_id, token, "finish", own=own)

    def fail(self, company: str, key: str, token: str, reason: str) -> Lesson:
        """End a leased lesson as failed; its outcome says so too. Raises LeaseLostError."""
        own = {"outcome": "failed", "drawn_at": self._clock()}
        return self._leased(company, key, token, "fail", own=own, reason=reason)

    def page(
        self, company: str, agent_id: str, *, before: Lesson | None = None, limit: int = MAX_PAGE
    ) -> tuple[Lesson, ...]:
        """Return at most 128 of an agent's lessons with their tasks, newest first, drawn or not."""
        query = self._rows().add_columns(trajectories.c.task_id).outerjoin(trajectories, _SAME)
        query = query.where(equals(lessons, company=company, agent_id=agent_id))
        return self._page(query, before=before, limit=limit)

    def outcomes(self, company: str) -> dict[str | None, int]:
        """Return how many lessons ended with which outcome; None are those that wait."""
        query = select(lessons.c.outcome, func.count().label("how_many")).where(lessons.c.company == company)
        found = self._database.rows(query.group_by(lessons.c.outcome).order_by(lessons.c.outcome))
        return {row["outcome"]: row["how_many"] for row in found}

    def unpropagated(self, company: str, agent_id: str, *, limit: int) -> tuple[Lesson, ...]:
        """Return an agent's lessons that were stored and not propagated yet."""
        query = self._rows().where(equals(lessons, company=company, agent_id=agent_id), UNPROPAGATED)
        return self._all(query.order_by(lessons.c.created_at, lessons.c.lesson_id).limit(limit))

    def propagated(self, company: str, lesson_ids: Iterable[str]) -> None:
        """Mark these as propagated, or as without peers."""
        with self._database.write() as connection:
            for part in id_chunks(lesson_ids):
                these = and_(lessons.c.company == company, lessons.c.lesson_id.in_(part))
                connection.execute(update(lessons).where(these).values(propagated_at=self._clock()))

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the lessons that were opened before then, and return how many; their memories stay."""
        return self._drop(lessons.c.company == company, lessons.c.created_at < before)

    def of_pattern(
        self, company: str, kind: PatternKind, key: str, *, since: datetime, until: datetime, limit: int
    ) -> tuple[Lesson, ...]:
        """Return the surest lesson of each agent that a person added on a pattern's executions.

        The surest comes first, then the order is by id.
        """
        category = key if kind is PatternKind.FAILURE else None
        which = equals(trajectories, company=company, error_category=category)
        if kind is PatternKind.SUCCESS:
            which &= trajectories.c.tools_key == key
        surest = (lessons.c.confidence.desc(), lessons.c.lesson_id)
        place = func.row_number().over(partition_by=lessons.c.agent_id, order_by=surest).label("place")
        placed = (
            select(lessons.c.lesson_id, lessons.c.confidence, place)
            .join(trajectories, _SAME)
            .where(which, trajectories.c.ended_at >= since, trajectories.c.ended_at < until)
            .where(lessons.c.body.is_not(None), OF_ADDED_AGENT)
            .subquery("placed")
        )
        # The texts are read of those alone that are returned.
        best = select(placed.c.lesson_id).where(placed.c.place == 1)
        best = best.order_by(placed.c.confidence.desc(), placed.c.lesson_id).limit(limit)
        query = self._rows().where(lessons.c.company == company, lessons.c.lesson_id.in_(best))
        return self._all(query.order_by(*surest))

    def _record(self, row: Mapping[Any, Any]) -> Lesson:
        return record_of(Lesson, row, text=None if row["body"] is None else row["body"].decode())
