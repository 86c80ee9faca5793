"""Lessons: the tasks that wait for a lesson, and the outcome of the others."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, and_, case, func, select, update

from memcore.jobs import LessonPayload
from memcore.ledger.database import Row, checked_key, equals, id_chunks, insert_one, record_of
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.rows import kept_origin, origin_of, unpack
from memcore.ledger.tables import IS_EVIDENCE, UNPROPAGATED, lessons, trajectories
from memcore.ledger.work_items import Work, WorkKey, WorkRecord, add_items, new_item, raise_lost
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime
from memcore.models.origin import OWN, Origin


class Lesson(WorkRecord):
    """A lesson's row; its id is the trajectory's.

    Attributes:
        outcome: one word, such as stored or low_confidence; None while nothing is decided.
        memory_id: the memory that says it: its own, or that of an earlier lesson which it repeats.
        text: the lesson (memcore.procedural.records) as JSON; None where there is none.
        origin: by which channels and keys that came which it is drawn from.
        task_id: the task that taught it; None where it was not looked up, or is kept no longer.
        propagated_at: when it was propagated to the agent's peers, or found to have none.
    """

    lesson_id: str
    agent_id: str
    outcome: str | None = None
    memory_id: str | None = None
    confidence: float | None = None
    text: str | None = Field(default=None, repr=False)
    origin: Origin = OWN
    task_id: str | None = None
    created_at: BoundedTime
    drawn_at: BoundedTime | None = None
    propagated_at: BoundedTime | None = None


class Taught(Frozen):
    """How many tasks taught what a memory says, and when the last of them did."""

    tasks: int
    last_at: BoundedTime


def open_lesson(connection: Connection, company: str, agent_id: str, lesson_id: str, *, at: datetime) -> bool:
    """Insert a task's lesson, to be drawn, and return True; False when it is there already.

    Raises MemoryInputError when a key is too long.
    """
    keys = {"company": company, "lesson_id": lesson_id, "agent_id": agent_id}
    row: Row = {name: checked_key(name, key) for name, key in keys.items()}
    name = WorkKey(row["company"], LessonPayload.task, row["lesson_id"])
    item = new_item(name, LessonPayload(**row), now=at, agent_id=row["agent_id"])
    return bool(add_items(connection, [item])) and insert_one(connection, lessons, row | {"created_at": at})


#: The outcome of a lesson that says what an earlier one says.
REPEATED = "repeated"

#: Most lessons of a page.
MAX_PAGE = 128

#: A lesson, and the trajectory that it is drawn from.
_SAME = and_(lessons.c.company == trajectories.c.company, lessons.c.lesson_id == trajectories.c.trajectory_id)


#: A lesson with what is known of the execution that taught it.
_TAUGHT = select(
    lessons, trajectories.c.task_id, trajectories.c.error_category, trajectories.c.task_type,
    trajectories.c.body.label("trajectory"),
).outerjoin(trajectories, _SAME)  # fmt: skip


def _kind(row: Mapping[Any, Any]) -> tuple[bool, frozenset[str]]:
    """Return whether an execution taught as a failure, and the tools that it called."""
    known = {} if row["trajectory"] is None else unpack("a trajectory", row["trajectory"])
    is_failure = row["error_category"] is not None or known.get("recovery") is not None
    return is_failure, frozenset(known.get("tools", ()))


class Lessons(Work[Lesson]):
    """The lessons table and its work items."""

    _kind = LessonPayload.task
    _table = lessons
    _model = Lesson
    _newest_by = (lessons.c.created_at, lessons.c.lesson_id)
    _page_size = MAX_PAGE

    def settle(
        self,
        company: str,
        lesson_id: str,
        token: str,
        *,
        memory_id: str,
        confidence: float,
        text: str,
        repeats: Callable[[Lesson], bool],
        origin: Origin = OWN,
    ) -> Lesson:
        """Give a leased lesson its memory, and return the lesson whose memory that is.

        It is the first of the agent's lessons of the same slot that ``repeats`` takes, or the lesson itself. The slot:
        both failed or both succeeded, the same error category, task type, and set of tools. Workers that settle lessons
        of one slot take turns; a lesson that was settled before keeps its memory.

        Raises LeaseLostError; MemoryNotFoundError when it is forgotten.
        """
        with self._database.write() as connection:
            mine = connection.execute(_TAUGHT.where(self._is(company, lesson_id))).mappings().one_or_none()
            if mine is None:
                raise_lost(connection, self._name(company, lesson_id))
            slot = equals(lessons, company=company, agent_id=mine["agent_id"])
            for column in (trajectories.c.error_category, trajectories.c.task_type):
                slot &= column.is_not_distinct_from(mine[column.name])
            # In one order everywhere, so that two workers never wait for each other.
            all_of_it = select(lessons.c.lesson_id).outerjoin(trajectories, _SAME).where(slot)
            connection.execute(all_of_it.order_by(lessons.c.lesson_id).with_for_update(of=lessons)).all()
            own = self._leased_in(connection, company, lesson_id, token, "renew", own=None)
            if own.memory_id is not None and own.outcome != REPEATED:
                return own
            values: Row = {"memory_id": memory_id, "confidence": confidence, "body": text.encode()}
            values["origin"] = kept_origin(origin)
            for row in self._firsts(connection, slot):
                first = self._record(row)
                if first.memory_id == own.memory_id:
                    return first
                if own.memory_id is None and _kind(row) == _kind(mine) and repeats(first):
                    values |= {"memory_id": first.memory_id, "outcome": REPEATED}
                    break
            else:
                first = own
            connection.execute(update(lessons).where(self._is(company, lesson_id)).values(values))
            return first

    def _firsts(self, connection: Connection, slot: ColumnElement[bool]) -> Iterator[Mapping[Any, Any]]:
        """Yield of a slot's lessons that whose memory it is, of each memory, with their trajectories, oldest first.

        Once that one is kept no longer, the oldest that repeats it takes its place.
        """
        is_repeated = case((lessons.c.outcome == REPEATED, 1), else_=0)
        order = (is_repeated, *self._newest_by)
        place = func.row_number().over(partition_by=lessons.c.memory_id, order_by=order).label("place")
        has_memory = lessons.c.memory_id.is_not(None) & lessons.c.body.is_not(None)
        placed = select(lessons.c.lesson_id, lessons.c.company, place).outerjoin(trajectories, _SAME)
        placed_rows = placed.where(slot, has_memory).subquery("placed")
        is_first = and_(
            placed_rows.c.company == lessons.c.company,
            placed_rows.c.lesson_id == lessons.c.lesson_id,
            placed_rows.c.place == 1,
        )
        query = _TAUGHT.where(select(placed_rows).where(is_first).exists()).order_by(*self._newest_by)
        yield from connection.execute(query).mappings()

    def taught(self, company: str, agent_id: str, memory_ids: Collection[str]) -> dict[str, Taught]:
        """Return what taught these memories of an agent, as far as it is kept; others are left out."""
        count, last_at = func.count().label("tasks"), func.max(lessons.c.created_at).label("last_at")
        of_agent = equals(lessons, company=company, agent_id=agent_id) & lessons.c.drawn_at.is_not(None)
        query = select(lessons.c.memory_id, count, last_at).where(of_agent).group_by(lessons.c.memory_id)
        rows = self._database.rows_with(query, lessons.c.memory_id, memory_ids)
        return {row["memory_id"]: record_of(Taught, row) for row in rows}

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
        is_known: bool = False,
    ) -> Lesson:
        """Save the outcome of a leased lesson; a known one is not propagated again.

        Raises LeaseLostError; MemoryNotFoundError when it is forgotten.
        """
        own = {
            "outcome": outcome,
            "memory_id": memory_id,
            "confidence": confidence,
            "drawn_at": self._clock(),
            "propagated_at": self._clock() if is_known else None,
            "body": None if text is None else text.encode(),
        }
        return self._leased(company, lesson_id, token, "finish", own=own)

    def fail(self, company: str, key: str, token: str, reason: str) -> Lesson:
        """End a leased lesson as failed; its outcome says so too. Raises LeaseLostError."""
        own = {"outcome": "failed", "drawn_at": self._clock(), "memory_id": None, "body": None}
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
        # One that is not drawn may have a memory that is not stored yet.
        its = equals(lessons, company=company, agent_id=agent_id) & lessons.c.drawn_at.is_not(None)
        query = self._rows().where(its, UNPROPAGATED)
        return self._all(query.order_by(lessons.c.created_at, lessons.c.lesson_id).limit(limit))

    def propagated(self, company: str, lesson_ids: Iterable[str]) -> None:
        """Mark these as propagated, or as without peers."""
        with self._database.write() as connection:
            for part in id_chunks(lesson_ids):
                these = and_(lessons.c.company == company, lessons.c.lesson_id.in_(part))
                connection.execute(update(lessons).where(these).values(propagated_at=self._clock()))

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the lessons that were opened before then, and return how many; their memories stay."""
        return self._drop(company, lessons.c.created_at < before)

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
            .where(lessons.c.body.is_not(None), IS_EVIDENCE)
            .subquery("placed")
        )
        # The texts are read of those alone that are returned.
        best = select(placed.c.lesson_id).where(placed.c.place == 1)
        best = best.order_by(placed.c.confidence.desc(), placed.c.lesson_id).limit(limit)
        query = self._rows().where(lessons.c.company == company, lessons.c.lesson_id.in_(best))
        return self._all(query.order_by(*surest))

    def _record(self, row: Mapping[Any, Any]) -> Lesson:
        text = None if row["body"] is None else row["body"].decode()
        return record_of(Lesson, row, text=text, origin=origin_of(row))
