"""Use job: which memories agents were shown, added to what the ledger knows."""

from datetime import timedelta

from pydantic import ValidationError

from memcore.errors import MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Dead, Done, Outcome, Retry
from memcore.jobs.payloads import is_newer
from memcore.jobs.queues import Queue
from memcore.jobs.use_payload import UsePayload
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.newer import wait_for_newer_worker

#: Wait before a batch is counted again: nobody waits for it, and a database that was away is back by then.
_RETRY_DELAY = timedelta(seconds=30)


def count(payload: str, crew: Crew) -> Outcome:
    """Count the batch once, however often its message comes."""
    try:
        job = UsePayload.model_validate_json(payload)
    except ValidationError as error:
        if is_newer(payload):
            return wait_for_newer_worker()
        return Dead(reason=str(MemoryInputError.of(error)))
    if job.company != crew.company:
        return Dead(reason="company: this worker serves another company")
    try:
        counted = crew.ledger.uses.count(job.company, job.batch_id, job.uses)
    except MemoryError as error:
        if error.is_retryable:
            return Retry(reason=type(error).__name__, delay=_RETRY_DELAY)
        return Dead(reason=type(error).__name__)
    return Done(facts={"counted": counted, "passed_over": len(job.uses) - counted})


USE = Job(
    name=TaskName.USE,
    queue=Queue.CONTROL,
    limits=Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=20),
    run=count,
)
