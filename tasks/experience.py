"""Experience job: a raw experience from an engine's envelope to the ledger."""

from datetime import timedelta

from memcore.jobs.experience_payload import ExperiencePayload
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Dead, Done, Outcome, Skipped
from memcore.jobs.queues import Queue
from memcore.levels import experience_refusal
from memcore.models import MemoryLevel
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before it is tried again: a database that was away is back by then.
_RETRY_DELAY = timedelta(seconds=10)


@opens(ExperiencePayload, retry_after=_RETRY_DELAY)
def record(job: ExperiencePayload, crew: Crew) -> Outcome:
    """Keep the experience once, however often its message comes."""
    agent_id, memory = job.experience.agent_id, crew.policy.memory
    level = crew.ledger.agents.levels(job.company, [agent_id]).get(agent_id, memory.level)
    if level is MemoryLevel.NONE:
        return Skipped(reason="level none: nothing is kept for this agent")
    refused = experience_refusal(level)
    if refused is not None:
        # A dead letter keeps it: once the level is mended, it is replayed.
        return Dead(reason=refused)
    is_new = crew.ledger.experiences.append(job.company, job.experience)
    # Known, so that a night comes; its experience is compressed at the end of one.
    crew.ledger.agents.register(job.company, [agent_id], interval=memory.consolidation.interval)
    return Done(facts={"recorded": int(is_new), "known": int(not is_new)})


RECORD = Job(
    name=TaskName.RECORD,
    queue=Queue.DISTILL,
    limits=Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=200),
    run=record,
)
