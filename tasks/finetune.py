"""Fine-tune job: one stage of a run, in a process of its own; the first of one that an engine asks for starts it."""

from datetime import timedelta

from memcore.errors import FineTuneRunActiveError
from memcore.finetune.plan import FineTunePlan
from memcore.jobs.finetune_payload import FineTunePayload
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome, Skipped
from memcore.jobs.queues import Queue
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(FineTunePayload, retry_after=_RETRY_DELAY)
def finetune(job: FineTunePayload, crew: Crew) -> Outcome:
    """Make sure that the run has its row, carry out its next stage, and ring for the one behind it."""
    if job.plan is not None:
        plan = FineTunePlan.model_validate(job.plan).model_dump(mode="json")
        try:
            crew.ledger.finetune_runs.start(job.company, plan, run_id=job.run_id)
        except FineTuneRunActiveError as error:
            return Skipped(reason=str(error))
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
