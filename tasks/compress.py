"""Compression job: a model looks at an agent's raw experience, and what it teaches becomes memories."""

from datetime import timedelta

from memcore.jobs.experience_payload import CompressPayload
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.queues import Queue
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(CompressPayload, retry_after=_RETRY_DELAY)
def compress(job: CompressPayload, crew: Crew) -> Outcome:
    """Compress what is raw, for one slice of time; the rows in the ledger say what is left."""
    outcome = crew.compress(job.agent_id)
    if isinstance(outcome, Done) and outcome.facts.get("compressed"):
        crew.export_wiki(job.agent_id)
    return outcome


COMPRESS = Job(
    name=TaskName.COMPRESS,
    queue=Queue.SYNTHESIS,
    limits=Limits(soft=timedelta(minutes=50), hard=timedelta(minutes=55), attempts=5),
    is_repeated=True,
    run=compress,
)
