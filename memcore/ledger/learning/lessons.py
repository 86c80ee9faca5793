"""Lessons: the tasks that wait for a lesson, and the outcome of the others."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, func, or_, select, update

from memcore.clock import Clock
from memcore.ledger.database import Database, checked_key, id_chunks, insert_for
from memcore.ledger.tables import UNPROPAGATED, WAITING, lessons, trajectories
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class Lesson(Frozen):
    """A lesson's row; its id is the trajectory's.

    Attributes:
        outcome: one word, such as stored or low_confidence; None while it is not drawn.
        memory_id: the memory that holds it; None where none does.
        confidence: 0 to 1; None where there is no lesson.
        text: the lesson (memcore.procedural.records) as JSON; None where there is none, and never in a repr.
        tries: how often a model was asked in vain.
        task_id: the task that taught it; None where it was not looked up, or is kept no longer.
        propagated_at: when it was propagated to the agent's peers, or found to have none.
    """

    lesson_id: str
    agent_id: str
    outcome: str | None = None
    memory_id: str | None = None
    confidence: float | None = None
    text: str | None = Field(default=None, repr=False)
    tries: int = Field(default=0, ge=0)
    task_id: str | None = None
    created_at: BoundedTime
    drawn_at: BoundedTime | None = None
    propagated_at: BoundedTime | None = None


def open_lesson(connection: Connection, company: str, agent_id: str, lesson_id: str, *, at: datetime) -> bool:
    """Insert a task's lesson, to be drawn, and return True; False when it is there already.

    Raises MemoryInputError when a key is too long.
    """
    row = {
        "company": checked_key("company", company),
        "lesson_id": checked_key("lesson_id", lesson_id),
        "agent_id": checked_key("agent_id", agent_id),
        "created_at": at,
        "rung_at": at,
        "tries": 0,
    }
    statement = insert_for(connection, lessons).values(row).on_conflict_do_nothing()
    return connection.execute(statement.returning(lessons.c.lesson_id)).scalar_one_or_none() is not None


#: Most lessons of a page.
MAX_PAGE = 128

#: A lesson, and the trajectory that it is drawn from.
_SAME = and_(lessons.c.company == trajectories.c.company, lessons.c.lesson_id == trajectories.c.trajectory_id)


class Lessons:
    """The lessons table; every method is one short transaction.

    Args:
        database: the ledger.
        clock: the time.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def open(self, company: str, agent_id: str, lesson_id: str) -> bool:
        """Insert a task's lesson, to be drawn, and return True; False when it is there already.

        Raises MemoryInputError when a key is too long.
        """
        with self._database.write() as connection:
            return open_lesson(connection, company, agent_id, lesson_id, at=self._clock())

    def get(self, company: str, lesson_id: str) -> Lesson | None:
        """Return the lesson's row, or None when this company has none with that id."""
        with self._database.read() as connection:
            query = select(lessons).where(lessons.c.company == company, lessons.c.lesson_id == lesson_id)
            row = connection.execute(query).mappings().one_or_none()
        return _lesson(row) if row else None

    def drawn(
        self,
        company: str,
        lesson_id: str,
        outcome: str,
        *,
        memory_id: str | None = None,
        confidence: float | None = None,
        text: str | None = None,
    ) -> bool:
        """Save the outcome of a waiting lesson and return True; False when it has one already."""
        changes = {
            "outcome": outcome,
            "memory_id": memory_id,
            "confidence": confidence,
            "drawn_at": self._clock(),
            "body": None if text is None else text.encode(),
        }
        is_it = and_(lessons.c.company == company, lessons.c.lesson_id == lesson_id, WAITING)
        with self._database.write() as connection:
            return bool(connection.execute(update(lessons).where(is_it).values(changes)).rowcount)

    def postpone(self, company: str, lesson_id: str, *, until: datetime, is_failed_attempt: bool = False) -> None:
        """Postpone a waiting lesson: no sweep dispatches it before then.

        Args:
            company: whose.
            lesson_id: which.
            until: when it is worth another look.
            is_failed_attempt: whether a model was asked and did not answer, which is counted.
        """
        is_it = and_(lessons.c.company == company, lessons.c.lesson_id == lesson_id, WAITING)
        changes = {"rung_at": until, "tries": lessons.c.tries + int(is_failed_attempt)}
        with self._database.write() as connection:
            connection.execute(update(lessons).where(is_it).values(changes))

    def waiting(self, company: str, *, dispatched_before: timedelta, limit: int) -> tuple[Lesson, ...]:
        """Return lessons whose message was sent so long ago that it counts as lost, the oldest first.

        They are marked as dispatched now, in the same transaction, so that two sweeps dispatch once.
        """
        now = self._clock()
        with self._database.write() as connection:
            query = select(lessons).where(
                lessons.c.company == company, WAITING, lessons.c.rung_at < now - dispatched_before
            )
            # On PostgreSQL two sweeps would otherwise both see what neither has marked yet.
            query = query.order_by(lessons.c.rung_at).limit(limit).with_for_update(skip_locked=True)
            rows = connection.execute(query).mappings().all()
            for part in id_chunks(sorted(row["lesson_id"] for row in rows)):
                these = and_(lessons.c.company == company, lessons.c.lesson_id.in_(part))
                connection.execute(update(lessons).where(these).values(rung_at=now))
        return tuple(map(_lesson, rows))

    def page(
        self, company: str, agent_id: str, *, before: Lesson | None = None, limit: int = MAX_PAGE
    ) -> tuple[Lesson, ...]:
        """Return at most 128 of an agent's lessons with their tasks, newest first, drawn or not.

        Args:
            company: whose.
            agent_id: whose agent.
            before: the last one of the page before.
            limit: at most 128.
        """
        at, key = lessons.c.created_at, lessons.c.lesson_id
        query = select(lessons, trajectories.c.task_id).outerjoin(trajectories, _SAME)
        query = query.where(lessons.c.company == company, lessons.c.agent_id == agent_id)
        if before is not None:
            query = query.where(at <= before.created_at, or_(at < before.created_at, key < before.lesson_id))
        query = query.order_by(at.desc(), key.desc()).limit(min(limit, MAX_PAGE))
        with self._database.read() as connection:
            return tuple(_lesson(row) for row in connection.execute(query).mappings())

    def outcomes(self, company: str, *, agent_id: str | None = None) -> dict[str | None, int]:
        """Return how many lessons, of one agent or of all, ended with which outcome; None are those that wait."""
        query = select(lessons.c.outcome, func.count().label("how_many")).where(lessons.c.company == company)
        if agent_id is not None:
            query = query.where(lessons.c.agent_id == agent_id)
        with self._database.read() as connection:
            found = connection.execute(query.group_by(lessons.c.outcome).order_by(lessons.c.outcome))
            return {row.outcome: row.how_many for row in found}

    def unpropagated(self, company: str, agent_id: str, *, limit: int) -> tuple[Lesson, ...]:
        """Return an agent's lessons that were stored and not propagated yet."""
        query = select(lessons).where(lessons.c.company == company, lessons.c.agent_id == agent_id, UNPROPAGATED)
        with self._database.read() as connection:
            found = connection.execute(query.order_by(lessons.c.created_at, lessons.c.lesson_id).limit(limit))
            return tuple(_lesson(row) for row in found.mappings())

    def propagated(self, company: str, lesson_ids: Iterable[str]) -> None:
        """Mark these as propagated, or as without peers."""
        with self._database.write() as connection:
            for part in id_chunks(sorted(lesson_ids)):
                these = and_(lessons.c.company == company, lessons.c.lesson_id.in_(part))
                connection.execute(update(lessons).where(these).values(propagated_at=self._clock()))

    def of_failures(
        self, company: str, category: str, *, since: datetime, until: datetime, limit: int
    ) -> tuple[Lesson, ...]:
        """Return the surest lesson of each agent on failures of a category, the surest first, then by id."""
        return self._of_tasks(company, trajectories.c.error_category == category, since, until, limit)

    def of_successes(
        self, company: str, tools_key: str, *, since: datetime, until: datetime, limit: int
    ) -> tuple[Lesson, ...]:
        """Return the surest lesson of each agent on successes with these tools, the surest first, then by id."""
        is_it = and_(trajectories.c.tools_key == tools_key, trajectories.c.error_category.is_(None))
        return self._of_tasks(company, is_it, since, until, limit)

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the lessons that were opened before then, and return how many; their memories stay."""
        with self._database.write() as connection:
            old = and_(lessons.c.company == company, lessons.c.created_at < before)
            return connection.execute(delete(lessons).where(old)).rowcount

    def delete_agent(self, company: str, agent_id: str) -> int:
        """Erase all lessons of an agent, for good, and return how many there were."""
        with self._database.write() as connection:
            its = and_(lessons.c.company == company, lessons.c.agent_id == agent_id)
            return connection.execute(delete(lessons).where(its)).rowcount

    def _of_tasks(
        self, company: str, which: ColumnElement[bool], since: datetime, until: datetime, limit: int
    ) -> tuple[Lesson, ...]:
        surest = (lessons.c.confidence.desc(), lessons.c.lesson_id)
        place = func.row_number().over(partition_by=lessons.c.agent_id, order_by=surest).label("place")
        placed = (
            select(lessons.c.lesson_id, lessons.c.confidence, place)
            .join(trajectories, _SAME)
            .where(trajectories.c.company == company, trajectories.c.ended_at >= since, trajectories.c.ended_at < until)
            .where(which, lessons.c.body.is_not(None))
            .subquery("placed")
        )
        # The texts are read of those alone that are returned.
        best = select(placed.c.lesson_id).where(placed.c.place == 1)
        best = best.order_by(placed.c.confidence.desc(), placed.c.lesson_id).limit(limit)
        query = select(lessons).where(lessons.c.company == company, lessons.c.lesson_id.in_(best)).order_by(*surest)
        with self._database.read() as connection:
            return tuple(_lesson(row) for row in connection.execute(query).mappings())


def _lesson(row: RowMapping) -> Lesson:
    body: bytes | None = row["body"]
    return Lesson(
        lesson_id=row["lesson_id"],
        agent_id=row["agent_id"],
        outcome=row["outcome"],
        memory_id=row["memory_id"],
        confidence=row["confidence"],
        text=None if body is None else body.decode(),
        tries=row["tries"],
        task_id=row.get("task_id"),
        created_at=row["created_at"],
        drawn_at=row["drawn_at"],
        propagated_at=row["propagated_at"],
    )
