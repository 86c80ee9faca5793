"""What each job does: one file a job, with its limits, one call into memcore, and its outcome."""

from tasks.job import Job
from tasks.maintain import MAINTAIN
from tasks.store import STORE

#: Every job of this room; a worker builds its Celery tasks from them.
JOBS: tuple[Job, ...] = (STORE, MAINTAIN)

__all__ = ["JOBS", "Job"]
