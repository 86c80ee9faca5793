"""Learning jobs: record and compress experience, extract lessons, run an evolver's cycle, count applied skills."""

from datetime import timedelta

from memcore.jobs import (
    AppliedPayload,
    CompressPayload,
    Dead,
    Deferred,
    Done,
    EvolvePayload,
    ExperiencePayload,
    LessonPayload,
    Outcome,
    Skipped,
    Snooze,
    TaskName,
)
from memcore.models.memory import MemoryLevel, experience_refusal
from memcore.skills.publication import count_application
from tasks.context import JobContext
from tasks.job import COUNT_LIMITS, COUNT_RETRY_DELAY, LONG_LIMITS, WRITE_LIMITS, as_job


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
