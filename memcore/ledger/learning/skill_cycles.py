"""Cycles of the skill evolver: one for each planned time, however many processes plan it."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import select

from memcore import ids
from memcore.jobs import EvolvePayload
from memcore.ledger.database import Row, record_of
from memcore.ledger.tables import skill_cycles, work_items
from memcore.ledger.work_items import Work, WorkItem, WorkRecord, WorkState, new_item
from memcore.models.base import ValidatedModel
from memcore.models.memory import BoundedTime, Key

#: Who asked for a cycle: the schedule, or a person.
CycleOrigin = Literal["scheduled", "manual"]


class Cycle(WorkRecord):
    """A cycle's row; its window is half open: the start belongs to it, the end does not.

    It was planned for a slot, or the time a person asked. Its report (memcore.skills.report) is JSON.
    """

    cycle_id: str
    origin: CycleOrigin
    planned_at: BoundedTime
    window_start: BoundedTime
    window_end: BoundedTime
    state: WorkState = WorkState.AVAILABLE
    finished_at: BoundedTime | None = None
    report: dict[str, Any] | None = Field(default=None, repr=False)


class NewCycle(ValidatedModel):
    """A cycle to plan; its window ends with ``planned_at``."""

    company: Key
    origin: CycleOrigin
    planned_at: BoundedTime
    window: timedelta

    def cycle(self) -> Cycle:
        """Return the cycle; each process that plans it gives it the same id."""
        # In UTC, so that one instant written in two zones is one cycle.
        at = self.planned_at.astimezone(UTC)
        cycle_id = ids.cycle_id(company=self.company, planned_at=at.isoformat())
        return Cycle(cycle_id=cycle_id, origin=self.origin, planned_at=at, window_start=at - self.window, window_end=at)


#: Most cycles of a page.
MAX_PAGE = 100


class SkillCycles(Work[Cycle]):
    """The skill_cycles table and its work items."""

    _kind = EvolvePayload.task
    _table = skill_cycles
    _model = Cycle
    _newest_by = (skill_cycles.c.planned_at, skill_cycles.c.cycle_id)
    _page_size = MAX_PAGE

    def plan(self, company: str, *, origin: CycleOrigin, planned_at: datetime, window: timedelta) -> Cycle | None:
        """Plan the one cycle of a time and return it; None when it is planned already.

        Raises MemoryInputError when the company's name is too long, or the time has no zone.
        """
        items = self.plan_all([NewCycle(company=company, origin=origin, planned_at=planned_at, window=window)])
        return self.get(company, items[0].key) if items else None

    def plan_all(self, cycles: Iterable[NewCycle]) -> tuple[WorkItem, ...]:
        """Plan cycles of any companies, in one transaction, and return the items of those that are new, to dispatch.

        Raises as :meth:`plan` does.
        """
        items, rows = dict[str, Row](), dict[str, Row]()
        for new in cycles:
            cycle, company = new.cycle(), new.company
            rows[cycle.cycle_id] = cycle.model_dump(include=set(skill_cycles.c.keys())) | {"company": company}
            payload = EvolvePayload(
                company=company, cycle_id=cycle.cycle_id, origin=cycle.origin, planned_at=cycle.planned_at
            )
            items[cycle.cycle_id] = new_item(self._name(company, cycle.cycle_id), payload, now=self._clock())
        query = select(skill_cycles.c.cycle_id)
        for row in self._database.rows_with(query, skill_cycles.c.cycle_id, items):
            del items[row["cycle_id"]]
        if not items:
            return ()  # most sweeps end here, and take no lock
        with self._database.write() as connection:
            added = self._insert(connection, rows, items.values())
        return tuple(record_of(WorkItem, items[cycle_id]) for cycle_id in sorted(added))

    def finish(self, company: str, cycle_id: str, token: str, report: dict[str, Any]) -> Cycle:
        """Save the report of a leased cycle, which ends. Raises LeaseLostError."""
        return self._leased(company, cycle_id, token, "finish", own={"report": report})

    def page(self, company: str, *, before: Cycle | None = None, limit: int = MAX_PAGE) -> tuple[Cycle, ...]:
        """Return at most 100 cycles, newest first; ``before`` is the last of the page before."""
        return self._page(self._rows().where(skill_cycles.c.company == company), before=before, limit=limit)

    def last_finished(self, company: str) -> Cycle | None:
        """Return the cycle that was finished last, or None when none was."""
        is_done = work_items.c.state == WorkState.DONE
        query = self._rows().where(skill_cycles.c.company == company, is_done)
        return self._one(query.order_by(work_items.c.finished_at.desc()).limit(1))

    def expire(self, company: str, *, before: datetime) -> int:
        """Forget the cycles that were planned for earlier, finished or not, and return how many there were."""
        return self._drop(company, skill_cycles.c.planned_at < before)
