"""Sweep: ring again for what was lost with a message or a worker, and let go of what was kept long enough."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.queues import Queue
from scheduler.cycle import tend_cycles
from scheduler.lessons import tend_lessons
from tasks.crew import Crew
from tasks.job import Job, Limits

#: How long a run may wait unclaimed before its message counts as lost; ringing twice is harmless.
QUEUED_TOO_LONG = timedelta(minutes=2)

#: How long a reindex may wait for its next slice before that message counts as lost.
REINDEX_UNHEARD = timedelta(seconds=30)

#: The same for the next stage of a fine-tune run; its worker may be started only when somebody needs it.
FINETUNE_UNHEARD = timedelta(minutes=5)

#: Runs rung for in one sweep at most.
SWEEP_BATCH = 1_000


def sweep(_payload: str, crew: Crew) -> Outcome:
    """Ring for stale runs, and let go of what is over; whoever holds a run makes a second message do nothing."""
    for run_id in crew.ledger.syntheses.revive(crew.company):
        crew.ledger.runs.wake(run_id)
    stale = crew.ledger.runs.stale(crew.company, queued_for=QUEUED_TOO_LONG, limit=SWEEP_BATCH)
    crew.bell.ring_many(stale)
    crew.ledger.runs.rung([run.run_id for run in stale])
    rung = len(stale) + tend_cycles(crew) + tend_lessons(crew)
    if crew.ledger.reindexes.waiting(crew.company, rung_before=REINDEX_UNHEARD):
        crew.bell.ring_reindex(crew.company)
    finetune = crew.ledger.finetune_runs.waiting(crew.company, rung_before=FINETUNE_UNHEARD)
    if finetune is not None:
        crew.bell.ring_finetune(crew.company, finetune)
    crew.ledger.syntheses.forget(crew.company)
    policy, now = crew.policy.memory.consolidation, crew.clock()
    over = now - timedelta(days=policy.journal_days)
    crew.ledger.answers.expire(crew.company, before=over)
    expired = crew.ledger.journal.expire(crew.company, before=over)
    keep_days = policy.archival.keep_days
    unarchived = crew.ledger.archive.expire(
        crew.company,
        # What came back is kept as long as the run that brought it back can be undone.
        returned_before=over,
        before=None if keep_days is None else now - timedelta(days=keep_days),
    )
    # Last: it speaks to the store, and trouble there must not keep lost runs waiting.
    crew.tend_approvals()
    crew.tend_org()
    return Done(facts={"rung": rung, "expired": expired, "unarchived": unarchived})


SWEEP = Job(
    name=TaskName.SWEEP,
    queue=Queue.CONTROL,
    limits=Limits(soft=timedelta(seconds=50), hard=timedelta(seconds=55), attempts=1),
    is_repeated=True,
    run=sweep,
)
