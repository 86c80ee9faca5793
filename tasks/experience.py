"""Experience jobs: record a raw experience in the ledger, and compress an agent's raw experience with a model."""

from datetime import timedelta

from memcore.jobs.outcomes import Dead, Done, Outcome, Skipped
from memcore.jobs.payloads import CompressPayload, ExperiencePayload, TaskName
from memcore.models.memory import MemoryLevel, experience_refusal
from tasks.context import JobContext
from tasks.job import LONG_LIMITS, WRITE_LIMITS, as_job

#: Wait before a retry: a database that was down is back by then.
_RETRY_DELAY = timedelta(seconds=10)


@as_job(TaskName.RECORD, ExperiencePayload, WRITE_LIMITS, retry_after=_RETRY_DELAY)
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


@as_job(TaskName.COMPRESS, CompressPayload, LONG_LIMITS, retry_after=_RETRY_DELAY, is_repeated=True)
def compress(job: CompressPayload, job_context: JobContext) -> Outcome:
    """Compress raw experience for one slice of time; the ledger's rows say what is left."""
    outcome = job_context.compress(job.agent_id)
    if isinstance(outcome, Done) and outcome.facts.get("compressed"):
        job_context.export_wiki(job.agent_id)
    return outcome
