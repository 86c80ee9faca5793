"""Cycles of the skill evolver: one for each planned time, however many processes plan it."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import select

from memcore import ids
from memcore.ledger.database import checked_key, checked_time, insert_one
from memcore.ledger.rows import CompanyRecords, Work
from memcore.ledger.tables import UNFINISHED, skill_cycles
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime

#: Who asked for a cycle: the schedule, or a person.
CycleOrigin = Literal["scheduled", "manual"]


class Cycle(Frozen):
    """A cycle's row; its window is half open: the start belongs to it, the end does not.

    Attributes:
        planned_at: the slot, or the time a person asked.
        finished_at: when it was done; None while it is not.
        report: what came of it (memcore.skills.report) as JSON; None while it is not finished.
    """

    cycle_id: str
    origin: CycleOrigin
    planned_at: BoundedTime
    window_start: BoundedTime
    window_end: BoundedTime
    finished_at: BoundedTime | None = None
    report: dict[str, Any] | None = Field(default=None, repr=False)


#: Most cycles of a page.
MAX_PAGE = 100


class SkillCycles(CompanyRecords[Cycle], Work[Cycle]):
    """The skill_cycles table; a method takes the write lock only to write."""

    _table = skill_cycles
    _model = Cycle
    _newest_by = (skill_cycles.c.planned_at, skill_cycles.c.cycle_id)
    _page_size = MAX_PAGE
    _open = UNFINISHED

    def plan(self, company: str, *, origin: CycleOrigin, planned_at: datetime, window: timedelta) -> Cycle | None:
        """Plan the one cycle of a time and return it; None when it is planned already.

        Its window ends with ``planned_at``. Raises MemoryInputError when the company's name is too long, or the time
        has no zone.
        """
        # In UTC, so that one instant written in two zones is one cycle.
        at = checked_time("planned_at", planned_at).astimezone(UTC)
        cycle = Cycle(
            cycle_id=ids.cycle_id(company=checked_key("company", company), planned_at=at.isoformat()),
            origin=origin,
            planned_at=at,
            window_start=at - window,
            window_end=at,
        )
        if self.get(company, cycle.cycle_id) is not None:
            return None  # most ticks end here, and take no lock
        row = {**cycle.model_dump(exclude={"finished_at", "report"}), "company": company, "rung_at": self._clock()}
        with self._database.write() as connection:
            return cycle if insert_one(connection, skill_cycles, row) else None

    def finish(self, company: str, cycle_id: str, report: dict[str, Any]) -> bool:
        """Save a cycle's report and return True; False when it is finished already, or unknown."""
        changes = {"finished_at": self._clock(), "report": report}
        return self._update(self._is(company, cycle_id) & UNFINISHED, changes) > 0

    def mark_dispatched(self, company: str, cycle_id: str) -> None:
        """Mark a cycle as dispatched now: its message counts as lost only after the whole time again."""
        self._update(self._is(company, cycle_id) & UNFINISHED, {"rung_at": self._clock()})

    def page(self, company: str, *, before: Cycle | None = None, limit: int = MAX_PAGE) -> tuple[Cycle, ...]:
        """Return at most 100 cycles, newest first; ``before`` is the last of the page before."""
        return self._page(select(skill_cycles).where(skill_cycles.c.company == company), before=before, limit=limit)

    def last_finished(self, company: str) -> Cycle | None:
        """Return the cycle that was finished last, or None when none was."""
        query = select(skill_cycles).where(skill_cycles.c.company == company, ~UNFINISHED)
        return self._one(query.order_by(skill_cycles.c.finished_at.desc()).limit(1))

    def expire(self, company: str, *, before: datetime) -> int:
        """Forget the cycles that were planned for earlier, finished or not, and return how many there were."""
        return self._delete(skill_cycles.c.company == company, skill_cycles.c.planned_at < before)
