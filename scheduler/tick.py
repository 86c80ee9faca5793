"""The tick: claims due agents, commits, then dispatches their runs.

Its cost grows with the agents that are due, not with those that exist.
"""

import logging

from memcore.jobs import Done, Outcome, TickPayload
from memcore.telemetry.events import Event
from tasks.context import JobContext
from tasks.job import CONTROL_LIMITS, job

_log = logging.getLogger("memtend.jobs")

#: Agents claimed in one transaction: the write lock is held for some three tenths of a second. Their rows lie all over
#: the indexes, so fewer at a time write the same pages again and again (1,000: a fifth more CPU on SQLite).
CLAIM_BATCH = 2_000

#: Agents claimed in one tick at most, some five seconds of work: after a long downtime the backlog spreads over several
#: ticks, and none comes near its time limit.
CLAIM_CAP = 20_000


@job(TickPayload, CONTROL_LIMITS, is_repeated=True)
def tick(_payload: TickPayload, job_context: JobContext) -> Outcome:
    """Dispatch the runs of all companies' due agents, the longest due first; any number of ticks may run at once."""
    _mend_clock(job_context)
    sent = _send(job_context)
    # Recorded at the end, and while all is paused too: the doctor checks that ticks run.
    job_context.ledger.ticks.note(job_context.company, sent=sent)
    return Done(facts={"sent": sent})


def _mend_clock(job_context: JobContext) -> None:
    """After a jump of the clock let no open work wait for a time that may lie years ahead."""
    tick = job_context.ledger.ticks.watch(job_context.company)
    if tick is None:
        return
    _log.warning(Event.SCHEDULER_CLOCK_JUMPED, extra={"since": tick.ended_at, "now": job_context.clock()})
    for company, _ in job_context.policies.served(job_context.ledger.companies):
        job_context.ledger.work.hasten(company.company)


def _send(job_context: JobContext) -> int:
    agents, sent = job_context.ledger.agents, 0
    due = agents.due(default=job_context.policies.policy.memory.consolidation.interval)
    if not due:
        return 0  # most ticks end here, and read no policy
    companies = job_context.policies.served(job_context.ledger.companies)
    served = [company.company for company, _ in companies if company.company in due]
    waiting = {interval: [each for each in served if due[each] is interval] for interval in set(due.values())}
    while waiting and sent < CLAIM_CAP:
        for interval, names in tuple(waiting.items()):
            runs = agents.claim_due(names, interval=interval, limit=CLAIM_BATCH)
            if runs:  # committed by now: a message lost from here on is found by the sweep
                job_context.dispatcher.dispatch(runs)
            sent += len(runs)
            if len(runs) < CLAIM_BATCH:
                del waiting[interval]
    return sent
