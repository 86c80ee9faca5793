"""A cycle of the skill evolver: what it was to look at, and what came of it."""

from typing import Any, Literal

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.frozen import Frozen

#: Who asked for a cycle: the schedule, or a person.
CycleOrigin = Literal["scheduled", "manual"]


class Cycle(Frozen):
    """A cycle's row; its window is half open: the start belongs to it, the end does not.

    Attributes:
        origin: who asked for it, the schedule or a person.
        planned_at: the slot, or the time a person asked.
        finished_at: when it was done; None while it is not.
        report: what came of it (memcore.skills.report) as JSON; None while nobody has finished it.
    """

    cycle_id: str
    origin: CycleOrigin
    planned_at: BoundedTime
    window_start: BoundedTime
    window_end: BoundedTime
    finished_at: BoundedTime | None = None
    report: dict[str, Any] | None = Field(default=None, repr=False)
