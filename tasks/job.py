"""What a job is: a name, a queue, limits, and a plain function from payload and context to an outcome."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import TypeVar

from pydantic import ValidationError

from memcore.errors import (
    MemoryDiskFullError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.jobs.outcomes import Dead, Outcome, Retry, Snooze
from memcore.jobs.payloads import Payload, is_newer
from memcore.jobs.queues import Queue, TaskName
from tasks.context import JobContext

#: Workers that may die while they run a job. One more than a chain of accidents: a job that dies with another's killer,
#: then again beside it, then by an operator's hand, is innocent.
DEATHS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how often a job may run; soft < hard < the broker's visibility timeout, checked by a test.

    Attributes:
        soft: after this the job is asked to stop.
        hard: after this its process is killed (prefork), or the job has bounded itself (threads).
        attempts: runs in all before it is given up.
        deaths: workers that may die while they run it before it is given up; those of a run are its attempts.
    """

    soft: timedelta
    hard: timedelta
    attempts: int
    deaths: int = DEATHS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as a worker sees it.

    Attributes:
        is_repeated: a ledger row or beat brings the job again, so that nothing is lost when its message is given up.
        run: the work: payload's JSON and the context of the process in, outcome out.
    """

    name: TaskName
    queue: Queue
    limits: Limits
    is_repeated: bool = False
    run: Callable[[str, JobContext], Outcome]


#: Pause between two looks, while workers are being replaced; below every group's visibility timeout.
NEWER_DELAY = timedelta(seconds=20)


def requeue_for_newer_worker() -> Snooze:
    """Return the outcome that puts the job back, as often as it takes: a half-done upgrade must lose nothing."""
    return Snooze(reason="the payload is of a newer version than this worker", delay=NEWER_DELAY)


P = TypeVar("P", bound=Payload)

#: Wait until a job looks again whether the disk has room: long enough that what waits writes little itself.
FULL_DELAY = timedelta(seconds=30)


def refuse_when_full(error: BaseException) -> Snooze:
    """Return what becomes of a job that found the disk full: no attempt is used up, however long it lasts."""
    return Snooze(reason=f"the disk is full ({type(error).__name__})", delay=FULL_DELAY)


def job_handler(
    model: type[P], *, retry_after: timedelta
) -> Callable[[Callable[[P, JobContext], Outcome]], Callable[[str, JobContext], Outcome]]:
    """Let a function of a checked payload be a job's work.

    A payload of newer code waits for a newer worker; one that breaks a limit, or is another company's, is dead, with
    the field in the reason. On a full disk a job waits for as long as that lasts. Other memory errors become a retry
    where doing it again may help, else a dead letter that says why.

    Args:
        model: reads the payload.
        retry_after: wait before it is done again; whatever was away is back by then.
    """

    def around(work: Callable[[P, JobContext], Outcome]) -> Callable[[str, JobContext], Outcome]:
        @wraps(work)
        def run(payload: str, job_context: JobContext) -> Outcome:
            try:
                job = model.model_validate_json(payload)
            except ValidationError as error:
                if is_newer(payload):
                    return requeue_for_newer_worker()
                return Dead(reason=str(MemoryInputError.of(error)))
            if job.company != job_context.company:
                return Dead(reason="company: this worker serves another company")
            try:
                return work(job, job_context)
            except MemoryError as error:
                return _after(error, retry_after)

        return run

    return around


def _after(error: MemoryError, retry_after: timedelta) -> Outcome:
    if isinstance(error, MemoryDiskFullError):
        return refuse_when_full(error)
    return Retry(reason=type(error).__name__, delay=retry_after) if error.is_retryable else Dead(reason=str(error))
