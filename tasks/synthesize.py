"""Synthesis job: a model is asked about one part of a night, while nobody holds the night."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome
from memcore.jobs.queues import Queue
from memcore.jobs.synthesis_payload import SynthesisPayload
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(SynthesisPayload, retry_after=_RETRY_DELAY)
def synthesize(job: SynthesisPayload, crew: Crew) -> Outcome:
    """Ask, and ring for the night when it has nothing left to wait for."""
    asked = crew.synthesize(job.run_id, job.place)
    crew.bell.ring_many([asked.night] if asked.night else [])
    return asked.outcome


SYNTHESIZE = Job(
    name=TaskName.SYNTHESIZE,
    queue=Queue.SYNTHESIS,
    limits=Limits(soft=timedelta(minutes=50), hard=timedelta(minutes=55), attempts=5),
    is_repeated=True,
    run=synthesize,
)
