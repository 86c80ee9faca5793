"""Sweep: ring again for runs whose message or worker was lost, and let old journals expire."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.queues import Queue
from tasks.crew import Crew
from tasks.job import Job, Limits

#: How long a run may wait unclaimed before its message counts as lost; ringing twice is harmless.
QUEUED_TOO_LONG = timedelta(minutes=2)

#: Runs rung for in one sweep at most.
SWEEP_BATCH = 1_000


def sweep(_payload: str, crew: Crew) -> Outcome:
    """Ring for stale runs; whoever holds a run already makes the second message do nothing."""
    stale = crew.ledger.runs.stale(crew.company, queued_for=QUEUED_TOO_LONG, limit=SWEEP_BATCH)
    crew.bell.ring_many(stale)
    crew.ledger.runs.rung([run.run_id for run in stale])
    journal_days = crew.policy.memory.consolidation.journal_days
    expired = crew.ledger.journal.expire(crew.company, before=crew.clock() - timedelta(days=journal_days))
    return Done(facts={"rung": len(stale), "expired": expired})


SWEEP = Job(
    name=TaskName.SWEEP,
    queue=Queue.CONTROL,
    limits=Limits(soft=timedelta(seconds=50), hard=timedelta(seconds=55), attempts=1),
    is_repeated=True,
    run=sweep,
)
