"""A cycle's job, with a real evolver and ledger: it ends once and files once, whoever dies and whoever else runs."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.fault_injection import AT_CALLS, Crash, Faults
from support.job_contexts import ScriptedContext
from support.ledger_records import COMPANY, StoppedClock, copied_urls
from support.present import present
from support.running_stack import wait_until
from support.shared_failures import AGENTS, FAILURES, USUAL, share_failures

from memcore import ids
from memcore.approvals import ApprovalService, EffectRegistry
from memcore.config.learning import EvolverConfig
from memcore.config.policy import Policy
from memcore.config.urls import LedgerUrls
from memcore.jobs import Dead, Deferred, Done, EvolvePayload, Outcome, ProgressCallback, Skipped
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import REDISPATCH_AFTER
from memcore.skills.evolver import CycleService, SkillEvolver
from memcore.skills.report import CycleStage, EvolverReport
from scheduler.sweep import plan_cycles, sweep
from tasks.learn import evolve
from workers.celery_task import perform

ON = EvolverConfig(enabled=True)
WINDOW = timedelta(days=30)


def evolver(ledger: Ledger, clock: StoppedClock, config: EvolverConfig = ON) -> SkillEvolver:
    approvals = ApprovalService(ledger.approvals, EffectRegistry(()), company=COMPANY, lasts=timedelta(days=14))
    return SkillEvolver(ledger, approvals, config, company=COMPANY, clock=clock)


def service(ledger: Ledger, clock: StoppedClock, config: EvolverConfig = ON) -> CycleService:
    return CycleService(ledger, evolver(ledger, clock, config), company=COMPANY)


def planned(ledger: Ledger, clock: StoppedClock) -> str:
    """Plan a cycle over failures that many share, unless they are there, and return its id."""
    if ledger.trajectories.count(COMPANY) == 0:
        share_failures(ledger, COMPANY, at=clock())
    cycle = present(ledger.skill_cycles.plan(COMPANY, origin="scheduled", planned_at=clock(), window=WINDOW))
    return cycle.cycle_id


def check(ledger: Ledger, cycle_id: str, where: str = "") -> None:
    """Insist on one finished cycle and one proposal of each pattern."""
    cycle = ledger.skill_cycles.get(COMPANY, cycle_id)
    assert cycle is not None, where
    assert cycle.report is not None, where
    assert cycle.report["proposals_emitted"] == len(FAILURES), where
    assert cycle.report["trajectories_analyzed"] == AGENTS * (len(FAILURES) + USUAL), where
    filed = Counter(each.proposal.details["pattern_id"] for each in ledger.approvals.page(COMPANY))
    assert sorted(filed.values()) == [1] * len(FAILURES), where


@pytest.fixture
def ledger(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=clock)
    yield opened
    opened.close()


def test_a_cycle_is_carried_out_and_finished_once(ledger: Ledger, clock: StoppedClock) -> None:
    cycle_id = planned(ledger, clock)
    outcome = asyncio.run(service(ledger, clock).run(cycle_id))
    assert isinstance(outcome, Done)
    assert outcome.facts["proposals_emitted"] == len(FAILURES)
    check(ledger, cycle_id)
    assert isinstance(asyncio.run(service(ledger, clock).run(cycle_id)), Skipped)
    assert asyncio.run(service(ledger, clock).run("another")) == Dead(
        reason="memory.skills.evolve: 'another' names no work"
    )


def test_while_paused_a_cycle_waits_and_then_goes_on(ledger: Ledger, clock: StoppedClock) -> None:
    cycle_id = planned(ledger, clock)
    ledger.companies.pause(COMPANY)
    assert isinstance(asyncio.run(service(ledger, clock).run(cycle_id)), Deferred)
    assert ledger.approvals.count(COMPANY) == 0
    ledger.companies.resume(COMPANY)
    assert isinstance(asyncio.run(service(ledger, clock).run(cycle_id)), Done)
    check(ledger, cycle_id)


def test_an_evolver_that_was_switched_off_finishes_its_cycle_with_nothing(
    ledger: Ledger, clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cycle_id = planned(ledger, clock)
    outcome = asyncio.run(service(ledger, clock, EvolverConfig(enabled=False)).run(cycle_id))
    assert isinstance(outcome, Done)
    assert not any(outcome.facts.values())
    cycle = present(ledger.skill_cycles.last_finished(COMPANY))
    assert cycle.cycle_id == cycle_id
    assert ledger.approvals.count(COMPANY) == 0
    assert "skill_evolver.disabled" in [record.message for record in caplog.records]


def test_many_workers_at_one_cycle_finish_it_once(ledger: Ledger, clock: StoppedClock) -> None:
    cycle_id, at_once = planned(ledger, clock), threading.Barrier(4)

    def work() -> Outcome:
        at_once.wait(timeout=600)
        return asyncio.run(service(ledger, clock).run(cycle_id))

    with ThreadPoolExecutor(4) as workers:
        became = [each.result(timeout=600) for each in [workers.submit(work) for _ in range(4)]]
    assert Counter(map(type, became)) == {Done: 1, Skipped: 3}
    check(ledger, cycle_id)


def test_what_another_worker_files_meanwhile_is_this_cycles_own(ledger: Ledger, clock: StoppedClock) -> None:
    cycle_id, reports = planned(ledger, clock), list[EvolverReport]()
    cycle = present(ledger.skill_cycles.get(COMPANY, cycle_id))

    def the_other_works(stage: str, _fraction: float | None) -> None:
        if stage == CycleStage.REPLAYING and not reports:  # this one has listed what it may file, and filed nothing
            reports.append(asyncio.run(evolver(ledger, clock).run(cycle)))

    outcome = asyncio.run(service(ledger, clock).run(cycle_id, on_progress=the_other_works))
    assert isinstance(outcome, Done)
    assert [each.proposals_emitted for each in reports] == [len(FAILURES)]
    assert outcome.facts["skipped_known"] == 0
    check(ledger, cycle_id)


def test_while_somebody_works_on_a_cycle_it_is_not_dispatched_again(ledger: Ledger, clock: StoppedClock) -> None:
    cycle_id, faults, dispatched = planned(ledger, clock), Faults(), list[int]()
    job_context = ScriptedContext(ledger=ledger, clock=clock)

    def signs() -> int:
        return faults.calls.count("skill_cycles.renew")

    def has_more(before: int) -> bool:
        return signs() >= before + 2

    class Slow:
        async def run(self, cycle: Cycle, *, on_progress: ProgressCallback) -> EvolverReport:
            on_progress(CycleStage.SEARCHING, None)
            for _ in range(3):
                clock.advance(LEASE_LENGTH / 2)
                await asyncio.to_thread(wait_until, partial(has_more, signs()), what="signs of life")
                perform(sweep, "{}", job_context)
                dispatched.append(len(job_context.dispatcher.items))
            return EvolverReport(cycle_id=cycle.cycle_id, window_start=cycle.window_start, window_end=cycle.window_end)

    watched = CycleService(faults.ledger(ledger), Slow(), company=COMPANY, renewal=timedelta(milliseconds=5))
    assert isinstance(asyncio.run(watched.run(cycle_id)), Done)
    assert dispatched == [0, 0, 0]


@pytest.fixture
def seeded(tmp_path: Path, ledger_template: Path, clock: StoppedClock) -> Path:
    """A folder with the databases of a ledger in which the failures are: copying it is quicker than making them."""
    ledger = Ledger.open(copied_urls(ledger_template, tmp_path / "seeded"), clock=clock)
    share_failures(ledger, COMPANY, at=clock())
    ledger.close()
    return tmp_path / "seeded"


@pytest.mark.parametrize("is_after", AT_CALLS)
def test_after_a_crash_anywhere_the_next_attempt_ends_it(
    tmp_path: Path,
    seeded: Path,
    clock: StoppedClock,
    record_property: Callable[[str, object], None],
    *,
    is_after: bool,
) -> None:
    points, is_over, seen = 0, False, set[str]()
    while not is_over:
        ledger = Ledger.open(copied_urls(seeded, tmp_path / str(points)), clock=clock)
        cycle_id = planned(ledger, clock)
        faults = Faults(points, is_after=is_after)
        try:
            asyncio.run(service(faults.ledger(ledger), clock).run(cycle_id))
            is_over = True
        except Crash:
            points += 1
            clock.advance(LEASE_LENGTH)
        outcome = asyncio.run(service(ledger, clock).run(cycle_id))
        assert isinstance(outcome, Done | Skipped), faults.calls[-1]
        check(ledger, cycle_id, faults.calls[-1])
        seen.update(faults.calls)
        ledger.close()
    assert {"approvals.file", "skill_cycles.finish"} <= seen
    record_property("points", points)


def test_a_second_worker_anywhere_in_the_middle_changes_nothing(
    tmp_path: Path, seeded: Path, clock: StoppedClock
) -> None:
    points, is_over, became = 0, False, list[Outcome]()
    while not is_over:
        ledger = Ledger.open(copied_urls(seeded, tmp_path / str(points)), clock=clock)
        cycle_id = planned(ledger, clock)
        other = service(ledger, clock)

        def strike(other: CycleService = other, cycle_id: str = cycle_id) -> Any:
            async def run() -> None:
                became.append(await other.run(cycle_id))

            return run()

        faults = Faults(points, strike=strike)
        first = asyncio.run(service(faults.ledger(ledger), clock).run(cycle_id))
        is_over = len(became) == points
        points += 1
        assert sum(isinstance(each, Done) for each in (first, *became[points - 1 :])) == 1, faults.calls[-1]
        check(ledger, cycle_id, faults.calls[-1])
        ledger.close()
    assert points > 10


def test_a_sweep_that_dies_before_it_dispatches_loses_no_cycle(ledger: Ledger, clock: StoppedClock) -> None:
    job_context = ScriptedContext(ledger=ledger, clock=clock)
    job_context.policy = Policy.model_validate({"memory": {"procedural": {"evolver": {"enabled": True}}}})
    job_context.evolving = lambda cycle_id: asyncio.run(service(ledger, clock).run(cycle_id))
    share_failures(ledger, COMPANY, at=clock() - timedelta(days=2))
    job_context.dispatcher.error = OSError("killed")
    with pytest.raises(OSError, match="killed"):
        plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    job_context.dispatcher.error = None
    assert job_context.dispatcher.items == []
    clock.advance(REDISPATCH_AFTER + timedelta(seconds=1))
    perform(sweep, "{}", job_context)
    (item,) = job_context.dispatcher.items
    message = item.payload or ""
    ledger.companies.pause(COMPANY)
    assert perform(evolve, message, job_context) == Deferred(reason="maintenance is paused for all agents")
    ledger.companies.resume(COMPANY)
    assert isinstance(perform(evolve, message, job_context), Done)
    assert isinstance(perform(evolve, message, job_context), Skipped)
    check(ledger, item.key)


def test_a_cycle_that_fails_is_told_and_tried_again(
    sqlite_ledger: LedgerUrls, clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger.open(sqlite_ledger, clock=clock)
    job_context = ScriptedContext(ledger=ledger, clock=clock)
    planned(ledger, clock)
    cycle_id = ids.cycle_id(company=COMPANY, planned_at=clock().isoformat())
    message = EvolvePayload(company=COMPANY, cycle_id=cycle_id, planned_at=clock()).model_dump_json()
    gone = Ledger.open(LedgerUrls(ledger="sqlite:////nowhere/ledger.db", journal=sqlite_ledger.journal), clock=clock)
    approvals = ApprovalService(gone.approvals, EffectRegistry(()), company=COMPANY, lasts=timedelta(days=14))
    evolver = SkillEvolver(ledger, approvals, ON, company=COMPANY, clock=clock)
    job_context.evolving = lambda each: asyncio.run(CycleService(ledger, evolver, company=COMPANY).run(each))
    assert isinstance(perform(evolve, message, job_context), Deferred)
    failed = [record for record in caplog.records if record.message == "skill_evolver.cycle.failed"]
    assert [vars(record)["cycle_id"] for record in failed] == [cycle_id]
    job_context.evolving = lambda each: asyncio.run(service(ledger, clock).run(each))
    assert isinstance(perform(evolve, message, job_context), Done)
    check(ledger, cycle_id)
    gone.close()
    ledger.close()
