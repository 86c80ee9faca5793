"""Evolve job: one cycle of the skill evolver, planned by the tick or asked for by a person."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome, Parked, Snooze
from memcore.jobs.queues import Queue
from memcore.jobs.skill_payloads import EvolvePayload
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(EvolvePayload, retry_after=_RETRY_DELAY)
def evolve(job: EvolvePayload, crew: Crew) -> Outcome:
    """Make sure the cycle's row exists, then carry it out; the row is the truth, the message only the bell."""
    window = timedelta(days=crew.policy.memory.procedural.evolver.window_days)
    crew.ledger.skill_cycles.plan(job.company, origin=job.origin, planned_at=job.planned_at, window=window)
    outcome = crew.evolve(job.cycle_id)
    # The sweep rings for the row once maintenance goes on.
    return Parked(reason=outcome.reason) if isinstance(outcome, Snooze) else outcome


EVOLVE = Job(
    name=TaskName.EVOLVE,
    queue=Queue.SKILLS,
    limits=Limits(soft=timedelta(minutes=50), hard=timedelta(minutes=55), attempts=5),
    is_repeated=True,
    run=evolve,
)
