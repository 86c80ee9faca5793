"""The removal guard: what it holds, what goes on all the same, and what a released run may remove."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.fake_summarizer import FakeSummarizer
from support.fault_injection import Faults, crash_points
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    opened_world,
    uid,
)
from support.random_histories import POLICIES, stores
from support.thorough import examples

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, RetentionConfig
from memcore.jobs import Done, Skipped
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.runs import Run, RunStep
from memcore.ledger.work_items import WorkState
from memcore.records import MemoryRecord

#: Ten memories of the limit, three to a group, held above half of what retention leaves.
POLICY = ConsolidationConfig(
    strategy=ConsolidationStrategyType.CONDENSE,
    retention=RetentionConfig(default_retention_days=90),
    max_memories_per_agent=4,
    group_max_entries=3,
    max_removed_floor=0,
)

#: What the run of :func:`world` is held for, and what it did before.
HELD = {
    "planned": 8,
    "planned_consolidated": 6,
    "planned_enforced": 2,
    "ended": 0,
    "retention": 2,
    "pruned": 0,
    "expired": 1,
    "consolidated": 0,
    "summaries": 0,
    "enforced": 0,
}


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    """Two that are too old, one that has expired, two summaries' worth, and two over the limit."""
    world = make_maintenance_fixture(POLICY)
    await world.store([memory(1, days_old=100), memory(2, days_old=101), memory(3, days_old=1, expires_in_days=-0.5)])
    await world.store(memory(n, days_old=60 - n, with_vectors=n % 2 == 0) for n in range(4, 11))
    await world.store(memory(n, days_old=n - 10) for n in range(11, 14))
    return world


async def held(world: MaintenanceFixture) -> Run:
    planned = world.plan_run()
    outcome = await world.to_the_end(planned.run_id)
    run = world.run(planned.run_id)
    assert isinstance(outcome, Skipped), outcome
    assert (run.state, run.step) == (WorkState.HELD, RunStep.CONSOLIDATION)
    return run


def over_its_limit(limit: int) -> ConsolidationConfig:
    return ConsolidationConfig(strategy=ConsolidationStrategyType.NONE, max_memories_per_agent=limit)


async def test_what_is_due_goes_and_the_rest_waits_for_a_person(world: MaintenanceFixture) -> None:
    plan = await world.service().plan(AGENT)
    assert (plan.live, plan.left, plan.removed, plan.guarded, plan.is_held) == (13, 10, 11, 8, True)

    run = await held(world)

    assert run.counts == HELD
    assert run.reason == plan.reason
    assert "10 memories would become 4: 6 would be merged, 2 over the limit removed" in plan.reason
    assert set(await world.live()) == {uid(n) for n in range(4, 14)}
    await world.undo(run.run_id)
    assert len(await world.live()) == 13

    world.clock.turn(timedelta(days=2))
    world.ledger.runs.approve_held(COMPANY, (await held(world)).run_id)
    assert world.run(run.run_id).state is WorkState.DISMISSED


async def test_what_was_shown_is_done_after_a_release(world: MaintenanceFixture) -> None:
    run = await held(world)

    world.ledger.runs.approve_held(COMPANY, run.run_id)
    assert isinstance(await world.to_the_end(run.run_id), Done)

    done = world.run(run.run_id)
    assert done.counts == HELD | {"consolidated": 6, "summaries": 2, "enforced": 2}
    assert len(await world.live()) == 4
    await world.check_balance()


async def test_retention_is_never_held_however_much_it_removes(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(
            strategy=ConsolidationStrategyType.NONE, retention=RetentionConfig(default_retention_days=20)
        )
    )
    await world.store(memory(n, days_old=30) for n in range(1, 41))
    await world.store(memory(n, days_old=5) for n in range(41, 61))

    assert not (await world.service().plan(AGENT)).is_held
    run = await world.maintenance_run()

    assert (run.counts["retention"], run.counts["planned"]) == (40, 0)
    assert len(await world.live()) == 20


@pytest.mark.parametrize(("over", "is_held"), [(20, False), (21, True)])
async def test_a_few_removals_are_never_held_whatever_their_share(
    make_maintenance_fixture: MakeMaintenanceFixture, over: int, is_held: bool
) -> None:
    world = make_maintenance_fixture(over_its_limit(1))
    await world.store(memory(n) for n in range(over + 1))

    assert (await world.service().plan(AGENT)).is_held is is_held
    planned = world.plan_run()
    await world.to_the_end(planned.run_id)

    assert (world.run(planned.run_id).state is WorkState.HELD) is is_held


async def test_ten_days_over_the_guard_leave_one_held_run_and_every_expiry_went_on(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(over_its_limit(10))
    await world.store(memory(n) for n in range(100, 160))
    await world.store(memory(n, expires_in_days=n + 0.5) for n in range(10))
    runs_of_days: list[Run] = []
    for day in range(10):
        world.clock.turn(timedelta(days=1))
        await world.store([memory(200 + day)])
        runs_of_days.append(await held(world))
        assert len([n for n in range(10) if uid(n) in await world.live()]) == 9 - day

    runs = world.ledger.runs.list(COMPANY, agent_id=AGENT)
    assert [run.run_id for run in runs] == [run.run_id for run in reversed(runs_of_days)]
    assert [run.state for run in runs] == [WorkState.HELD, *[WorkState.DISMISSED] * 9]
    # Sixty, one more each day, and what has not expired yet, over the limit of ten.
    assert [run.counts["planned_enforced"] for run in runs_of_days] == [60 + (n + 1) + (9 - n) - 10 for n in range(10)]
    assert all(run.counts["expired"] == 1 for run in runs_of_days)
    await world.check_balance()


async def test_a_run_whose_plan_has_grown_since_it_was_shown_is_held_again(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(over_its_limit(10))
    await world.store(memory(n) for n in range(40))
    run = await held(world)
    await world.store([memory(n) for n in range(100, 130)])
    before = await world.snapshot()
    world.ledger.runs.approve_held(COMPANY, run.run_id)

    outcome = await world.to_the_end(run.run_id)

    again = world.run(run.run_id)
    assert isinstance(outcome, Skipped)
    assert (again.state, again.reason, again.allow_large) == (WorkState.HELD, outcome.reason, False)
    assert "merged memories from 0 to 0, memories over the limit from 30 to 60" in outcome.reason
    assert (again.counts["planned"], again.counts["planned_enforced"]) == (60, 60)
    assert await world.snapshot() == before

    world.ledger.runs.approve_held(COMPANY, run.run_id)
    assert isinstance(await world.to_the_end(run.run_id), Done)
    assert len(await world.live()) == 10


async def test_a_released_run_whose_plan_has_shrunk_does_what_is_left(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(over_its_limit(10))
    await world.store(memory(n) for n in range(40))
    run = await held(world)
    await world.backend.delete_many(AGENT, [uid(n) for n in range(25)])

    world.ledger.runs.approve_held(COMPANY, run.run_id)
    assert isinstance(await world.to_the_end(run.run_id), Done)

    assert (world.run(run.run_id).counts["enforced"], len(await world.live())) == (5, 10)


@pytest.mark.parametrize("strategy", [ConsolidationStrategyType.NONE, ConsolidationStrategyType.SIMPLE])
async def test_what_was_stored_while_a_released_run_was_at_work_waits_for_the_next_one(
    make_maintenance_fixture: MakeMaintenanceFixture, strategy: ConsolidationStrategyType
) -> None:
    world = make_maintenance_fixture(over_its_limit(10).model_copy(update={"strategy": strategy}))
    await world.store(memory(n, days_old=30 - n / 10) for n in range(40))
    run = await held(world)
    shown = {name: run.counts[f"planned_{name}"] for name in ("consolidated", "enforced")}
    world.ledger.runs.approve_held(COMPANY, run.run_id)
    faults = Faults()
    go_back = world.keep()
    await world.watched(faults).run(run.run_id)
    judged = faults.calls.index("runs.advance")
    go_back()

    async def more() -> None:
        await world.store([memory(n, days_old=20 - n / 100) for n in range(100, 130)])

    faults = Faults(judged, strike=more)
    assert isinstance(await world.watched(faults).run(run.run_id), Done)

    done = world.run(run.run_id).counts
    assert all(done[name] <= most for name, most in shown.items())
    assert done["consolidated"] + done["enforced"] >= 20
    await world.check_balance()


async def test_a_run_that_waited_for_its_model_is_judged_once_the_model_is_there(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy=ConsolidationStrategyType.LLM))
    await world.store([memory(n, days_old=60 - n / 10) for n in range(1, 60)])
    planned = world.plan_run()
    await world.to_the_end(planned.run_id)
    assert world.run(planned.run_id).state is WorkState.WAITING

    world.model = FakeSummarizer()
    world.clock.turn(timedelta(hours=1))
    assert isinstance(await world.to_the_end(planned.run_id), Skipped)

    run = world.run(planned.run_id)
    assert (run.state, run.counts["planned_consolidated"]) == (WorkState.HELD, 58)
    assert len(await world.live()) == 59


async def test_a_run_that_an_earlier_release_held_is_held_once_more_with_the_figures_of_its_steps(
    world: MaintenanceFixture,
) -> None:
    run = world.plan_run()
    taken = world.ledger.runs.claim(COMPANY, run.run_id, lease=LEASE_LENGTH)
    assert taken is not None
    assert taken.token is not None
    world.ledger.runs.finish(COMPANY, run.run_id, taken.token, state=WorkState.HELD, counts={"planned": 11})

    world.ledger.runs.approve_held(COMPANY, run.run_id)
    assert isinstance(await world.to_the_end(run.run_id), Skipped)

    assert world.run(run.run_id).counts == HELD


@pytest.mark.slow(because="dozens of crashes, each with the run that follows")
@pytest.mark.parametrize("is_released", [False, True])
async def test_a_crash_at_any_call_changes_neither_what_is_shown_nor_what_is_removed(
    world: MaintenanceFixture, is_released: bool
) -> None:
    run = await held(world) if is_released else world.plan_run()
    if is_released:
        world.ledger.runs.approve_held(COMPANY, run.run_id)
    go_back = world.keep()
    faultless = Faults()
    await world.watched(faultless).run(run.run_id)
    after, end = await world.snapshot(), world.run(run.run_id)
    assert end.state is (WorkState.DONE if is_released else WorkState.HELD)
    assert len(faultless.calls) >= 35, "the scenario has become too small to mean anything"

    for point in crash_points(faultless.calls):
        go_back()
        await world.crash(run.run_id, Faults(point))

        await world.to_the_end(run.run_id)

        found = world.run(run.run_id)
        where = (point, faultless.calls[point])
        assert (found.state, found.step, found.counts) == (end.state, end.step, end.counts), where
        assert await world.snapshot() == after, where
        await world.check_balance()


@given(
    records=stores(),
    policy=POLICIES,
    strategy=st.sampled_from(["simple", "condense"]),
    more=stores(first=1_000, most=10),
    strikes=st.integers(0, 200),
    days=st.integers(0, 10),
)
# Most stores have nothing over their limit, or nothing to merge: no run of theirs is held.
@settings(
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_no_released_run_removes_more_than_was_shown(
    ledger_template: Path,
    records: list[MemoryRecord],
    policy: ConsolidationConfig,
    strategy: str,
    more: list[MemoryRecord],
    strikes: int,
    days: int,
) -> None:
    guard = {"strategy": strategy, "max_removed_fraction": 0.2, "max_removed_floor": 0}
    policy = ConsolidationConfig.model_validate({**dict(policy), **guard})
    with opened_world(ledger_template, policy) as world:
        asyncio.run(_released(world, records, more, strikes=strikes, days=days))


async def _released(
    world: MaintenanceFixture, records: Sequence[MemoryRecord], more: Sequence[MemoryRecord], *, strikes: int, days: int
) -> None:
    """Hold a run, release it some days later, and store more at any of its calls."""
    await world.store(records)
    run = world.plan_run()
    await world.to_the_end(run.run_id)
    shown = world.run(run.run_id)
    assume(shown.state is WorkState.HELD)
    world.clock.turn(timedelta(days=days))
    world.ledger.runs.approve_held(COMPANY, run.run_id)

    async def stored() -> None:
        await world.store(more)

    faults = Faults(strikes, strike=stored)
    await world.watched(faults).run(run.run_id)

    found = world.run(run.run_id)
    assert found.state in {WorkState.DONE, WorkState.HELD}
    assert found.counts["consolidated"] <= shown.counts["planned_consolidated"]
    assert found.counts["enforced"] <= shown.counts["planned_enforced"]
    if found.state is WorkState.HELD:
        assert found.counts["consolidated"] == found.counts["enforced"] == 0
