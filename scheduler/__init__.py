"""The scheduler: the tick claims due agents, the sweep dispatches lost work again."""

from scheduler.sweep import SWEEP
from scheduler.tick import TICK
from tasks.job import Job

#: Every job of this package; the app loads them by name.
JOBS: tuple[Job, ...] = (TICK, SWEEP)

__all__ = ["JOBS"]
