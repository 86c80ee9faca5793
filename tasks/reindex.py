"""Reindex job: one slice of filling a collection, and the switch to it when it has caught up."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome
from memcore.jobs.queues import Queue
from memcore.jobs.reindex_payload import ReindexPayload
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(ReindexPayload, retry_after=_RETRY_DELAY)
def reindex(_job: ReindexPayload, crew: Crew) -> Outcome:
    """Work for a slice of time, and ring for the next one behind whatever else waits."""
    done = crew.reindex()
    if done.goes_on:
        crew.bell.ring_reindex(crew.company)
    return done.outcome


REINDEX = Job(
    name=TaskName.REINDEX,
    queue=Queue.REINDEX,
    limits=Limits(soft=timedelta(minutes=10), hard=timedelta(minutes=11), attempts=5),
    is_repeated=True,
    run=reindex,
)
