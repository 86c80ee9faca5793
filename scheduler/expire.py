"""Expiry: deletes what is older than its company's policy keeps."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from memcore.config.policy import Policy
from memcore.jobs import Done, ExpirePayload, Outcome, Skipped
from memcore.ledger.access.idempotency import KEPT_FOR
from memcore.ledger.ledger import Ledger
from memcore.ledger.webhooks.deliveries import KEPT_FOR as DELIVERIES_KEPT_FOR
from scheduler.sweep import shuffled
from tasks.context import JobContext
from tasks.job import CONTROL_LIMITS, job

#: Least time that a cycle's row is kept: a slot without its row would be planned again.
KEPT_AT_LEAST = timedelta(weeks=2)

#: How long one job deletes rows step by step, and how much of that goes to rows that no company owns; the next one
#: goes on.
STEPS_FOR, SHARED_STEPS_FOR = CONTROL_LIMITS.soft / 2, CONTROL_LIMITS.soft / 10


@job(ExpirePayload, CONTROL_LIMITS, is_repeated=True)
def expire(_payload: ExpirePayload, job_context: JobContext) -> Outcome:
    """Delete the old rows of all companies; what a failure leaves, the next job deletes."""
    ledger, now, expired = job_context.ledger, job_context.clock(), Counter[str]()
    if ledger.ticks.doubted():
        return Skipped(reason="the clock jumped: nothing expires before a person can have seen it")
    until = time.monotonic() + STEPS_FOR.total_seconds()
    # Where the time is too short for all, each company has its turn.
    served = shuffled(job_context.policies.served(ledger.companies), now)
    for company, policy in served:
        steps = expire_company(ledger, company.company, policy, now=now, goes_on=lambda: time.monotonic() < until)
        expired.update(steps)
    shared_until, memories = time.monotonic() + SHARED_STEPS_FOR.total_seconds(), [each.memory for _, each in served]
    # Last: a history that is away must not keep the companies' rows.
    expired["rows"] += ledger.ends.expire_shared(memories, now=now, goes_on=lambda: time.monotonic() < shared_until)
    return Done(facts=dict(expired))


def expire_company(
    ledger: Ledger, company: str, policy: Policy, *, now: datetime, goes_on: Callable[[], bool] = lambda: True
) -> dict[str, int]:
    """Delete a company's old rows: those of :mod:`memcore.ledger.erasure.ends` step by step while ``goes_on``.

    Return how many entries of the journal lost their content, and how many rows went in steps.
    """
    consolidation, learned = policy.memory.consolidation, timedelta(days=policy.memory.procedural.evolver.keep_days)
    ledger.skill_cycles.expire(company, before=now - max(learned, KEPT_AT_LEAST))
    ledger.trajectories.expire(company, before=now - learned)
    ledger.lessons.expire(company, before=now - learned)
    ledger.skills.expire_applications(company, before=now - learned)
    retrieval = policy.memory.retrieval
    asked = timedelta(days=retrieval.query_days) if retrieval.record_queries else timedelta(0)
    ledger.recorded_queries.expire(company, before=now - asked)
    conversation = policy.memory.conversation
    ledger.turns.expire(company, before=now - timedelta(hours=conversation.transcript_hours))
    ledger.conversation.age(company, before=now - timedelta(days=conversation.archive_days))
    ledger.crises.expire(company, before=now - timedelta(days=conversation.crisis_days))
    ledger.feedback.expire(company, before=now - timedelta(days=conversation.feedback_days))
    ledger.idempotency.expire(company, before=now - KEPT_FOR)
    ledger.deliveries.expire(company, before=now - DELIVERIES_KEPT_FOR)
    ledger.syntheses.forget(company)
    undoable = now - timedelta(days=consolidation.journal_days)
    ledger.answers.expire(company, before=undoable)
    ledger.consolidation_groups.expire(company, before=undoable)
    # The archive's entries go by the sweep: their copies in the company's store go first.
    expired = ledger.journal.expire(company, before=undoable)
    return {"expired": expired, "rows": ledger.ends.expire(company, policy.memory, now=now, goes_on=goes_on)}
