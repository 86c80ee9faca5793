"""Reindex job, one slice of filling a collection, and fine-tune job, one stage of a run; each dispatches the next."""

from datetime import timedelta

from memcore.errors import FineTuneRunActiveError
from memcore.jobs import FineTunePayload, Outcome, ReindexPayload, Skipped, TaskName
from memcore.models.finetune import FineTunePlan
from tasks.context import JobContext
from tasks.job import Limits, as_job

_SLICE_LIMITS = Limits(soft=timedelta(minutes=10), hard=timedelta(minutes=11), attempts=5)

#: A stage has a shorter limit of its own.
_STAGE_LIMITS = Limits(soft=timedelta(hours=12), hard=timedelta(hours=12, minutes=5), attempts=5)


@as_job(TaskName.REINDEX, ReindexPayload, _SLICE_LIMITS, is_repeated=True)
def reindex(_job: ReindexPayload, job_context: JobContext) -> Outcome:
    """Reindex for one slice of time, and dispatch the next slice behind whatever else waits."""
    done = job_context.reindex()
    if done.goes_on:
        job_context.dispatcher.dispatch_reindex(job_context.company)
    return done.outcome


@as_job(TaskName.FINETUNE, FineTunePayload, _STAGE_LIMITS, is_repeated=True)
def finetune(job: FineTunePayload, job_context: JobContext) -> Outcome:
    """Create the run's row if it is missing, carry out its next stage, and dispatch the following one."""
    if job.plan is not None:
        plan = FineTunePlan.model_validate(job.plan).model_dump(mode="json")
        try:
            job_context.ledger.finetune_runs.start(job.company, plan, run_id=job.run_id)
        except FineTuneRunActiveError as error:
            return Skipped(reason=str(error))
    step = job_context.finetune(job.run_id)
    if step.goes_on:
        job_context.dispatcher.dispatch_finetune(job_context.company, job.run_id)
    return step.outcome
