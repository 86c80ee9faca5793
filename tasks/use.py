"""Use job: which memories agents were shown, added to what the ledger knows."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.queues import Queue
from memcore.jobs.use_payload import UsePayload
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before a batch is counted again: nobody waits for it, and a database that was away is back by then.
_RETRY_DELAY = timedelta(seconds=30)


@opens(UsePayload, retry_after=_RETRY_DELAY)
def count(job: UsePayload, crew: Crew) -> Outcome:
    """Count the batch once, however often its message comes."""
    counted = crew.ledger.uses.count(job.company, job.batch_id, job.uses)
    return Done(facts={"counted": counted, "passed_over": len(job.uses) - counted})


USE = Job(
    name=TaskName.USE,
    queue=Queue.CONTROL,
    limits=Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=20),
    run=count,
)
