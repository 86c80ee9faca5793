"""Fine-tune job: one stage of a run, in a process of its own."""

from datetime import timedelta

from memcore.jobs.finetune_payload import FineTunePayload
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome
from memcore.jobs.queues import Queue
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(FineTunePayload, retry_after=_RETRY_DELAY)
def finetune(job: FineTunePayload, crew: Crew) -> Outcome:
    """Carry out the run's next stage, and ring for the one behind it."""
    step = crew.finetune(job.run_id)
    if step.goes_on:
        crew.bell.ring_finetune(crew.company, job.run_id)
    return step.outcome


FINETUNE = Job(
    name=TaskName.FINETUNE,
    queue=Queue.FINETUNE,
    # A stage bounds itself by a time of its own, which is shorter.
    limits=Limits(soft=timedelta(hours=12), hard=timedelta(hours=12, minutes=5), attempts=5),
    is_repeated=True,
    run=finetune,
)
