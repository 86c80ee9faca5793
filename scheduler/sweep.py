"""The sweep: dispatches lost work, plans the skill evolver's cycles, and does what needs each company's store."""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from memcore import ids
from memcore.config.policy import Policy
from memcore.jobs import (
    ChangesPayload,
    CompressPayload,
    Done,
    EndSessionPayload,
    ExtractPayload,
    LessonPayload,
    Outcome,
    SearchNotesPayload,
    SweepPayload,
    SynthesisPayload,
)
from memcore.ledger.agents import last_slot
from memcore.ledger.companies import Company, CompanyState
from memcore.ledger.learning.skill_cycles import NewCycle
from memcore.ledger.work_items import WorkItem
from memcore.maintenance.distrust import DistrustSearch
from memcore.maintenance.service import MaintenanceService
from memcore.models.memory import ConsolidationInterval
from memcore.org.sync import OrgSync
from memcore.skills.publication import SkillApprovals
from tasks.context import JobContext
from tasks.job import CONTROL_LIMITS, job


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


#: Kinds of work that nobody can do without a language model: their messages would only come back.
ASK_A_MODEL = (
    ChangesPayload.task,
    CompressPayload.task,
    LessonPayload.task,
    SearchNotesPayload.task,
    SynthesisPayload.task,
    ExtractPayload.task,
    EndSessionPayload.task,
)


#: Items dispatched in one sweep at most.
SWEEP_BATCH = 1_000


#: Companies whose open work one sweep finishes beside the installation's own; each opens connections to a store.
COMPANIES_AT_ONCE = 20


@job(SweepPayload, CONTROL_LIMITS, is_repeated=True)
def sweep(payload: SweepPayload, job_context: JobContext) -> Outcome:
    """Dispatch all companies' lost work, then finish what the payload's company or the installation's own has open.

    The other companies get a sweep of their own, so that one whose store is away delays nobody.
    """
    due: tuple[WorkItem, ...] = ()
    if payload.company is None:
        companies = job_context.policies.served(job_context.ledger.companies)
        plan_cycles(job_context, companies)
        due = job_context.ledger.work.take_due(limit=SWEEP_BATCH, without=() if job_context.model else ASK_A_MODEL)
        job_context.dispatcher.dispatch([*due, *_sweeps_of_others(job_context, companies)])
    # Last: a store that is away must not delay lost runs.
    _finish_open(job_context)
    return Done(facts={"dispatched": len(due)})


def _sweeps_of_others(job_context: JobContext, companies: Iterable[tuple[Company, Policy]]) -> list[WorkItem]:
    """Return messages, and no rows, for the companies whose turn it is."""
    now = job_context.clock()
    others = [company.company for company, _ in shuffled(companies, now) if company.company != job_context.company]
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


def shuffled(companies: Iterable[tuple[Company, Policy]], now: datetime) -> list[tuple[Company, Policy]]:
    """Return the companies in an order that is another one each time: nobody has to remember who was last."""
    return sorted(companies, key=lambda each: hashlib.blake2b(f"{now}{each[0].company}".encode()).digest())


def _finish_open(job_context: JobContext) -> None:
    """Finish what others left open, and delete old entries of the archive; it calls the store."""
    approvals = job_context.service(SkillApprovals)
    approvals.expire()
    job_context.run(approvals.finish())
    job_context.run(job_context.service(OrgSync).tend())
    job_context.run(job_context.service(DistrustSearch).finish())
    if not job_context.ledger.ticks.doubted():
        job_context.run(job_context.service(MaintenanceService).expire_archive())
