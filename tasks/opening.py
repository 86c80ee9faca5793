"""What every job begins and ends with: its payload is read and checked, and trouble becomes an outcome."""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import TypeVar

from pydantic import ValidationError

from memcore.errors import MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name
from memcore.jobs.outcomes import Dead, Outcome, Retry
from memcore.jobs.payload import Payload
from memcore.jobs.payloads import is_newer
from tasks.crew import Crew
from tasks.newer import wait_for_newer_worker

P = TypeVar("P", bound=Payload)


def opens(
    model: type[P], *, retry_after: timedelta
) -> Callable[[Callable[[P, Crew], Outcome]], Callable[[str, Crew], Outcome]]:
    """Let a function of a checked payload be a job's work.

    A payload of newer code waits for a newer worker; one that breaks a limit, or is another company's, is dead, with
    the field in the reason. Memory errors become a retry where doing it again may help, else a dead letter that says
    why.

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
                if error.is_retryable:
                    return Retry(reason=type(error).__name__, delay=retry_after)
                return Dead(reason=str(error))

        return run

    return around
