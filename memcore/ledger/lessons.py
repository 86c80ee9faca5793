"""Lessons: which tasks wait for theirs to be drawn, and what each of the others left."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, RowMapping, and_, delete, select, update

from memcore.clock import Clock
from memcore.ledger.agent import checked_key
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.learning_tables import UNPROPAGATED, WAITING, lessons, trajectories
from memcore.ledger.lesson import Lesson
from memcore.ledger.tombstones import parts


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
        """Note that a task's lesson is to be drawn and return True; False when that was noted before.

        Raises MemoryInputError when a key is too long.
        """
        now = self._clock()
        row = {
            "company": checked_key("company", company),
            "lesson_id": checked_key("lesson_id", lesson_id),
            "agent_id": checked_key("agent_id", agent_id),
            "created_at": now,
            "rung_at": now,
        }
        with self._database.write() as connection:
            statement = insert_for(connection, lessons).values(row).on_conflict_do_nothing()
            return connection.execute(statement.returning(lessons.c.lesson_id)).scalar_one_or_none() is not None

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
        """Write down what became of a lesson that waits and return True; False when somebody else has before."""
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

    def waiting(self, company: str, *, rung_before: timedelta, limit: int) -> tuple[Lesson, ...]:
        """Return lessons whose message was sent so long ago that it counts as lost, the oldest first.

        They are marked as rung for now, in the same transaction, so that two sweeps ring once.
        """
        now = self._clock()
        with self._database.write() as connection:
            query = select(lessons).where(lessons.c.company == company, WAITING, lessons.c.rung_at < now - rung_before)
            rows = connection.execute(query.order_by(lessons.c.rung_at).limit(limit)).mappings().all()
            for part in parts(sorted(row["lesson_id"] for row in rows)):
                these = and_(lessons.c.company == company, lessons.c.lesson_id.in_(part))
                connection.execute(update(lessons).where(these).values(rung_at=now))
        return tuple(map(_lesson, rows))

    def unpropagated(self, company: str, agent_id: str, *, limit: int) -> tuple[Lesson, ...]:
        """Return an agent's lessons that were stored and not passed on yet."""
        query = select(lessons).where(lessons.c.company == company, lessons.c.agent_id == agent_id, UNPROPAGATED)
        with self._database.read() as connection:
            found = connection.execute(query.order_by(lessons.c.created_at, lessons.c.lesson_id).limit(limit))
            return tuple(_lesson(row) for row in found.mappings())

    def propagated(self, company: str, lesson_ids: Iterable[str]) -> None:
        """Write down that these were passed on, or have nobody to be passed on to."""
        with self._database.write() as connection:
            for part in parts(sorted(lesson_ids)):
                these = and_(lessons.c.company == company, lessons.c.lesson_id.in_(part))
                connection.execute(update(lessons).where(these).values(propagated_at=self._clock()))

    def of_failures(
        self, company: str, category: str, *, since: datetime, until: datetime, limit: int
    ) -> tuple[Lesson, ...]:
        """Return the surest lessons of failures of a category in a window, those of one confidence by id."""
        return self._of_tasks(company, trajectories.c.error_category == category, since, until, limit)

    def of_successes(
        self, company: str, tools_key: str, *, since: datetime, until: datetime, limit: int
    ) -> tuple[Lesson, ...]:
        """Return the surest lessons of successes with these tools in a window, those of one confidence by id."""
        is_it = and_(trajectories.c.tools_key == tools_key, trajectories.c.error_category.is_(None))
        return self._of_tasks(company, is_it, since, until, limit)

    def expire(self, company: str, *, before: datetime) -> int:
        """Forget the lessons of tasks told of before then, and return how many; the memories drawn from them stay."""
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
        same = and_(lessons.c.company == trajectories.c.company, lessons.c.lesson_id == trajectories.c.trajectory_id)
        query = (
            select(lessons)
            .join(trajectories, same)
            .where(trajectories.c.company == company, trajectories.c.ended_at >= since, trajectories.c.ended_at < until)
            .where(which, lessons.c.body.is_not(None))
            .order_by(lessons.c.confidence.desc(), lessons.c.lesson_id)
            .limit(limit)
        )
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
        created_at=row["created_at"],
        drawn_at=row["drawn_at"],
        propagated_at=row["propagated_at"],
    )
