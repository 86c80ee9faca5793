"""The jobs: each has its limits, makes one call into memcore, and returns an outcome."""

from tasks import distill, learn, maintain, store
from tasks.job import Job

#: Every job of this package; a worker builds its Celery tasks from them.
JOBS: tuple[Job, ...] = (
    store.write,
    maintain.maintain,
    maintain.synthesize,
    store.count,
    learn.record,
    distill.distill,
    learn.compress,
    learn.extract_lesson,
    learn.evolve,
    learn.count,
    learn.reindex,
    learn.finetune,
)

__all__ = ["JOBS", "Job"]
