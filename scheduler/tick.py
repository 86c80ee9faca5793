"""The tick: claims due agents, commits, then dispatches their runs; once a slot it plans the skill evolver's cycle.

Its cost grows with the agents that are due, not with those that exist.
"""

from memcore.jobs import Done, Outcome, Skipped, TickPayload
from scheduler.sweep import plan_cycle
from tasks.context import JobContext
from tasks.job import CONTROL_LIMITS, job

#: Agents claimed in one transaction, and dispatched in one round trip; the write lock is held for a tenth of a second.
CLAIM_BATCH = 1_000

#: Agents claimed in one tick at most, some five seconds of work: after a long downtime the backlog spreads over several
#: ticks, and none comes near its time limit.
CLAIM_CAP = 20_000


@job(TickPayload, CONTROL_LIMITS, is_repeated=True)
def tick(_payload: TickPayload, job_context: JobContext) -> Outcome:
    """Dispatch the runs of due agents, the longest due first; any number of ticks may run at once."""
    outcome = _send(job_context)
    # Recorded at the end, and while all is paused too: the doctor checks that ticks run.
    job_context.ledger.ticks.note(job_context.company, sent=outcome.facts["sent"] if isinstance(outcome, Done) else 0)
    return outcome


def _send(job_context: JobContext) -> Done | Skipped:
    if job_context.ledger.companies.paused(job_context.company):
        # Due agents stay due: queued now, their runs would only be dispatched again and again until a resume.
        return Skipped(reason="maintenance is paused")
    interval = job_context.policy.memory.consolidation.interval
    sent = 0
    while sent < CLAIM_CAP:
        runs = job_context.ledger.agents.claim_due(job_context.company, interval=interval, limit=CLAIM_BATCH)
        if runs:  # committed by now: a message lost from here on is found by the sweep
            job_context.dispatcher.dispatch_runs(runs)
        sent += len(runs)
        if len(runs) < CLAIM_BATCH:
            break
    plan_cycle(job_context)
    return Done(facts={"sent": sent})
