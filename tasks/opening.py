"""What every job begins and ends with: its payload is read and checked, and trouble becomes an outcome."""

from collections.abc import Callable
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
from memcore.jobs.payload import Payload
from memcore.jobs.payloads import is_newer
from tasks.crew import Crew
from tasks.newer import wait_for_newer_worker

P = TypeVar("P", bound=Payload)

#: Wait until a job looks again whether the disk has room: long enough that what waits writes little itself.
FULL_DELAY = timedelta(seconds=30)


def wait_for_room(error: BaseException) -> Snooze:
    """Return what becomes of a job that found the disk full: no attempt is used up, however long it lasts."""
    return Snooze(reason=f"the disk is full ({type(error).__name__})", delay=FULL_DELAY)


def opens(
    model: type[P], *, retry_after: timedelta
) -> Callable[[Callable[[P, Crew], Outcome]], Callable[[str, Crew], Outcome]]:
    """Let a function of a checked payload be a job's work.

    A payload of newer code waits for a newer worker; one that breaks a limit, or is another company's, is dead, with
    the field in the reason. On a full disk a job waits for as long as that lasts. Other memory errors become a retry
    where doing it again may help, else a dead letter that says why.

    Args:
        model: reads the payload.
        retry_after: wait before it is done again; whatever was away is back by then.
    """

    def around(work: Callable[[P, Crew], Outcome]) -> Callable[[str, Crew], Outcome]:
        @wraps(work)
        def run(payload: str, crew: Crew) -> Outcome:
            try:
                job = model.model_validate_json(payload)
            except ValidationError as error:
                if is_newer(payload):
                    return wait_for_newer_worker()
                return Dead(reason=str(MemoryInputError.of(error)))
            if job.company != crew.company:
                return Dead(reason="company: this worker serves another company")
            try:
                return work(job, crew)
            except MemoryError as error:
                return _after(error, retry_after)

        return run

    return around


def _after(error: MemoryError, retry_after: timedelta) -> Outcome:
    if isinstance(error, MemoryDiskFullError):
        return wait_for_room(error)
    return Retry(reason=type(error).__name__, delay=retry_after) if error.is_retryable else Dead(reason=str(error))
