"""Learning jobs: experience, lessons, skills, and the embedder's own: a stage of its training, a slice of a reindex."""

from datetime import timedelta

from memcore.errors import FineTuneRunActiveError
from memcore.jobs import (
    AppliedPayload,
    CompressPayload,
    Dead,
    Deferred,
    Done,
    EvolvePayload,
    ExperiencePayload,
    FineTunePayload,
    LessonPayload,
    Outcome,
    ReindexPayload,
    Skipped,
    Snooze,
    TaskName,
)
from memcore.models.finetune import FineTunePlan
from memcore.models.memory import MemoryLevel, experience_refusal
from memcore.skills.publication import count_application
from tasks.context import JobContext
from tasks.job import COUNT_LIMITS, COUNT_RETRY_DELAY, LONG_LIMITS, WRITE_LIMITS, Limits, as_job


@as_job(TaskName.RECORD, ExperiencePayload, WRITE_LIMITS)
def record(job: ExperiencePayload, job_context: JobContext) -> Outcome:
    """Record the experience once, however often its message comes."""
    agent_id, memory = job.experience.agent_id, job_context.policy.memory
    level = job_context.ledger.agents.levels(job.company, [agent_id]).get(agent_id, memory.level)
    if level is MemoryLevel.NONE:
        return Skipped(reason="level none: nothing is kept for this agent")
    refused = experience_refusal(level)
    if refused is not None:
        # A dead letter keeps it, to be replayed once the level is corrected.
        return Dead(reason=refused)
    is_new = job_context.ledger.experiences.append(job.company, job.experience)
    # Registered, so that runs are scheduled; experience is compressed after each.
    job_context.ledger.agents.register(job.company, [agent_id], interval=memory.consolidation.interval)
    return Done(facts={"recorded": int(is_new), "known": int(not is_new)})


@as_job(TaskName.COMPRESS, CompressPayload, LONG_LIMITS, is_repeated=True)
def compress(job: CompressPayload, job_context: JobContext) -> Outcome:
    """Compress raw experience for one slice of time; the ledger's rows say what is left."""
    outcome = job_context.compress(job.agent_id)
    if isinstance(outcome, Done) and outcome.facts.get("compressed"):
        job_context.export_wiki(job.agent_id)
    return outcome


@as_job(TaskName.DRAW, LessonPayload, LONG_LIMITS, is_repeated=True)
def extract_lesson(job: LessonPayload, job_context: JobContext) -> Outcome:
    """Extract the lesson, unless its row in the ledger says that it is done."""
    return job_context.extract_lesson(job.lesson_id)


@as_job(TaskName.EVOLVE, EvolvePayload, LONG_LIMITS, is_repeated=True)
def evolve(job: EvolvePayload, job_context: JobContext) -> Outcome:
    """Create the cycle's row if it is missing, then carry it out; the row decides, the message only triggers."""
    window = timedelta(days=job_context.policy.memory.procedural.evolver.window_days)
    job_context.ledger.skill_cycles.plan(job.company, origin=job.origin, planned_at=job.planned_at, window=window)
    outcome = job_context.evolve(job.cycle_id)
    # The sweep dispatches the row once maintenance goes on.
    return Deferred(reason=outcome.reason) if isinstance(outcome, Snooze) else outcome


@as_job(TaskName.APPLIED, AppliedPayload, COUNT_LIMITS, retry_after=COUNT_RETRY_DELAY)
def count(job: AppliedPayload, job_context: JobContext) -> Outcome:
    """Count the application once, however often its message comes."""
    is_new = count_application(job_context.ledger, job)
    return Done(facts={"counted": int(is_new), "passed_over": int(not is_new)})


#: A job fills for one slice of time, and dispatches the next.
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
