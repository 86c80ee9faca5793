"""When jobs run: who is due, the tick that claims them, the sweep that finds what was lost."""

from scheduler.sweep import SWEEP
from scheduler.tick import TICK, schedule
from tasks.job import Job

#: Every job of this package; the app loads them by name.
JOBS: tuple[Job, ...] = (TICK, SWEEP)

__all__ = ["JOBS", "schedule"]
