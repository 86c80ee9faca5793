"""What each job does: one file a job, with its limits, one call into memcore, and its outcome."""

from tasks.applied import APPLIED
from tasks.compress import COMPRESS
from tasks.distill import DISTILL
from tasks.evolve import EVOLVE
from tasks.experience import RECORD
from tasks.finetune import FINETUNE
from tasks.job import Job
from tasks.lesson import DRAW
from tasks.maintain import MAINTAIN
from tasks.reindex import REINDEX
from tasks.store import STORE
from tasks.synthesize import SYNTHESIZE
from tasks.use import USE

#: Every job of this room; a worker builds its Celery tasks from them.
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
