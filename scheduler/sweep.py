"""The sweep: dispatches lost work again, plans the skill evolver's cycles, and deletes what has expired."""

import hashlib
from collections.abc import Iterable
from datetime import timedelta

from memcore import ids
from memcore.config.policy import Policy
from memcore.jobs import CompressPayload, Done, LessonPayload, Outcome, SweepPayload, SynthesisPayload
from memcore.ledger.agents import last_slot
from memcore.ledger.companies import Company, CompanyState
from memcore.ledger.learning.skill_cycles import NewCycle
from memcore.ledger.work_items import WorkItem
from memcore.models.memory import ConsolidationInterval
from memcore.org.sync import OrgSync
from memcore.skills.publication import SkillApprovals
from tasks.context import JobContext
from tasks.job import CONTROL_LIMITS, job

#: Least time that a cycle's row is kept: a slot without its row would be planned again.
KEPT_AT_LEAST = timedelta(weeks=2)


def plan_cycles(job_context: JobContext, companies: Iterable[tuple[Company, Policy]]) -> None:
    """Plan the cycle of each active company's current slot, once, and dispatch it.

    After a long downtime that is one cycle, not one for each slot that was missed.
    """
    now, new = job_context.clock(), list[NewCycle]()
    for company, policy in companies:
        config, interval = policy.memory.procedural.evolver, policy.memory.consolidation.interval
        if company.state is CompanyState.ACTIVE and config.enabled and interval is not ConsolidationInterval.NEVER:
            slot, window = last_slot(company.company, interval, now), timedelta(days=config.window_days)
            new.append(NewCycle(company=company.company, origin="scheduled", planned_at=slot, window=window))
    # Committed when it returns: a message lost from here on is found by the sweep.
    job_context.dispatcher.dispatch(job_context.ledger.skill_cycles.plan_all(new))


def expire_cycles(job_context: JobContext) -> None:
    """Forget the cycles that are older than the policy keeps."""
    keeps = timedelta(days=job_context.policy.memory.procedural.evolver.keep_days)
    before = job_context.clock() - max(keeps, KEPT_AT_LEAST)
    job_context.ledger.skill_cycles.expire(job_context.company, before=before)


def expire_lessons(job_context: JobContext) -> None:
    """Forget the lessons and their sources that are older than the policy keeps."""
    company = job_context.company
    over = job_context.clock() - timedelta(days=job_context.policy.memory.procedural.evolver.keep_days)
    job_context.ledger.trajectories.expire(company, before=over)
    job_context.ledger.lessons.expire(company, before=over)
    job_context.ledger.skills.expire_applications(company, before=over)


#: Kinds of work that nobody can do without a language model: their messages would only come back.
ASK_A_MODEL = (CompressPayload.task, LessonPayload.task, SynthesisPayload.task)


#: Items dispatched in one sweep at most.
SWEEP_BATCH = 1_000


#: Companies whose own rows one sweep looks after beside the installation's own; each opens connections to a store.
COMPANIES_AT_ONCE = 20


@job(SweepPayload, CONTROL_LIMITS, is_repeated=True)
def sweep(payload: SweepPayload, job_context: JobContext) -> Outcome:
    """Dispatch all companies' lost work, then look after the rows of the payload's company or the installation's own.

    The other companies get a sweep of their own, so that one whose store is away delays nobody.
    """
    due: tuple[WorkItem, ...] = ()
    if payload.company is None:
        companies = job_context.policies.served(job_context.ledger.companies)
        plan_cycles(job_context, companies)
        due = job_context.ledger.work.take_due(limit=SWEEP_BATCH, without=() if job_context.model else ASK_A_MODEL)
        job_context.dispatcher.dispatch([*due, *_sweeps_of_others(job_context, companies)])
    return Done(facts={"dispatched": len(due), **_look_after(job_context)})


def _sweeps_of_others(job_context: JobContext, companies: Iterable[tuple[Company, Policy]]) -> list[WorkItem]:
    """Return messages, and no rows, for the companies whose turn it is."""
    now = job_context.clock()
    others = [company.company for company, _ in companies if company.company != job_context.company]
    # Any order that is another one each time: nobody has to remember who was last, however many sweeps run.
    others.sort(key=lambda company: hashlib.blake2b(f"{now}{company}".encode()).digest())
    return [
        WorkItem(
            company=company,
            kind=SweepPayload.task,
            key=ids.new_id(),
            queue=str(SweepPayload.queue),
            payload=SweepPayload(company=company).model_dump_json(),
            created_at=now,
        )
        for company in others[:COMPANIES_AT_ONCE]
    ]


def _look_after(job_context: JobContext) -> dict[str, int]:
    """Delete the company's rows that have expired, and finish what others left open; return what was deleted."""
    company, ledger = job_context.company, job_context.ledger
    expire_cycles(job_context)
    expire_lessons(job_context)
    ledger.syntheses.forget(company)
    consolidation, now = job_context.policy.memory.consolidation, job_context.clock()
    over = now - timedelta(days=consolidation.journal_days)
    ledger.answers.expire(company, before=over)
    expired = ledger.journal.expire(company, before=over)
    keep_days = consolidation.archival.keep_days
    archived_before = None if keep_days is None else now - timedelta(days=keep_days)
    # A restored memory's copy is kept as long as its restore can be undone.
    unarchived = ledger.archive.expire(company, returned_before=over, before=archived_before)
    # Last: it calls the store, and a failure there must not delay lost runs.
    approvals = job_context.service(SkillApprovals)
    approvals.expire()
    job_context.run(approvals.finish())
    job_context.run(job_context.service(OrgSync).tend())
    return {"expired": expired, "unarchived": unarchived}
