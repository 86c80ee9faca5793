"""The jobs: each has its limits, makes one call into memcore, and returns an outcome."""

from tasks.distill import DISTILL
from tasks.embedder import FINETUNE, REINDEX
from tasks.experience import COMPRESS, RECORD
from tasks.job import Job
from tasks.learn import APPLIED, DRAW, EVOLVE
from tasks.maintain import MAINTAIN, SYNTHESIZE
from tasks.store import STORE, USE

#: Every job of this package; a worker builds its Celery tasks from them.
JOBS: tuple[Job, ...] = (
    STORE,
    MAINTAIN,
    SYNTHESIZE,
    USE,
    RECORD,
    DISTILL,
    COMPRESS,
    DRAW,
    EVOLVE,
    APPLIED,
    REINDEX,
    FINETUNE,
)

__all__ = ["JOBS", "Job"]
