"""The first runs of an agent, after an import: bounded instead of held; every later one is guarded."""

from datetime import timedelta

import pytest
from support.fault_injection import Faults, crash_points
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType
from memcore.jobs import Done
from memcore.ledger.runs import NewRun, Run
from memcore.ledger.work_items import WorkState

POLICY = ConsolidationConfig(
    strategy=ConsolidationStrategyType.CONDENSE,
    group_max_entries=4,
    max_memories_per_agent=100,
    max_removed_floor=0,
    first_runs_fraction=0.1,
)


async def filled(make: MakeMaintenanceFixture, policy: ConsolidationConfig = POLICY) -> MaintenanceFixture:
    """An import of some months, of which a run would merge nearly all."""
    world = make(policy)
    await world.store(memory(n, days_old=200 - n / 10) for n in range(1, 142))
    return world


def planned(world: MaintenanceFixture) -> Run:
    world.clock.turn(timedelta(days=1))
    run = world.ledger.runs.create(NewRun(company=COMPANY, agent_id=AGENT, planned_at=world.clock()))
    assert run is not None
    assert run.origin == "scheduled"
    return run


async def scheduled_run(world: MaintenanceFixture) -> Run:
    run = planned(world)
    await world.to_the_end(run.run_id)
    return world.run(run.run_id)


def removed(run: Run) -> int:
    return run.counts["consolidated"] + run.counts["enforced"]


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return await filled(make_maintenance_fixture)


async def test_the_first_runs_remove_little_at_a_time_until_the_guard_would_let_them(world: MaintenanceFixture) -> None:
    runs: list[Run] = []
    while len(runs) < 40 and (not runs or "planned_limit" in runs[-1].counts):
        before = len(await world.live())
        runs.append(await scheduled_run(world))
        if "planned_limit" in runs[-1].counts:
            assert 0 < removed(runs[-1]) <= runs[-1].counts["planned_limit"] <= before * 0.1

    assert len(runs) > 3
    assert all(run.state is WorkState.DONE for run in runs)
    assert len(await world.live()) <= 100
    await world.check_balance()

    # From then on the guard is the usual one, however large the next plan is.
    await world.store(memory(n, days_old=150 - n / 100) for n in range(1000, 1200))
    assert (await scheduled_run(world)).state is WorkState.HELD
    assert (await scheduled_run(world)).state is WorkState.HELD


async def test_an_agent_with_a_quiet_run_is_guarded(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(POLICY)
    await world.store([memory(0, days_old=0)])
    assert (await scheduled_run(world)).state is WorkState.DONE
    await world.store(memory(n, days_old=200 - n / 10) for n in range(1, 142))
    assert (await scheduled_run(world)).state is WorkState.HELD


@pytest.mark.parametrize("change", [{"first_runs_fraction": 0.0}, {"group_max_entries": 20}, {"apply": "propose"}])
async def test_first_runs_wait_where_the_policy_says_so_or_nothing_would_fit(
    make_maintenance_fixture: MakeMaintenanceFixture, change: dict[str, object]
) -> None:
    world = await filled(make_maintenance_fixture, ConsolidationConfig.model_validate({**dict(POLICY), **change}))
    assert (await scheduled_run(world)).state is WorkState.HELD


async def test_a_run_that_a_person_asked_for_is_held(world: MaintenanceFixture) -> None:
    run = world.plan_run()
    await world.to_the_end(run.run_id)
    assert world.run(run.run_id).state is WorkState.HELD
    world.ledger.runs.dismiss(COMPANY, run.run_id, by="person:Ada")
    assert (await scheduled_run(world)).state is WorkState.HELD, "a person has decided about this agent"


async def test_what_a_person_undid_is_not_done_again_little_by_little(world: MaintenanceFixture) -> None:
    run = await scheduled_run(world)
    assert 0 < removed(run) <= 14
    await world.undo(run.run_id)
    assert len(await world.live()) == 141
    world.clock.turn(timedelta(days=2))
    assert (await scheduled_run(world)).state is WorkState.HELD


async def test_the_limit_alone_is_bounded_too(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    policy = POLICY.model_copy(update={"strategy": ConsolidationStrategyType.NONE, "max_memories_per_agent": 10})
    world = await filled(make_maintenance_fixture, policy)
    run = await scheduled_run(world)
    assert (run.counts["enforced"], run.counts["planned_limit"], len(await world.live())) == (14, 14, 127)
    archived = [uid(n) for n in range(1, 142) if world.ledger.archive.find(COMPANY, AGENT, uid(n))]
    assert len(archived) == 14


@pytest.mark.slow(because="dozens of crashes, each with the run that follows")
async def test_a_crash_at_any_call_lets_a_first_run_remove_no_more(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = await filled(make_maintenance_fixture, POLICY.model_copy(update={"max_memories_per_agent": 20}))
    run = planned(world)
    go_back = world.keep()
    faultless = Faults()
    assert isinstance(await world.watched(faultless).run(run.run_id), Done)
    assert removed(world.run(run.run_id)) == 14
    for point in crash_points(faultless.calls):
        go_back()
        faults = Faults(point)
        await world.crash(run.run_id, faults)
        await world.to_the_end(run.run_id)
        assert removed(world.run(run.run_id)) == 14, (point, faultless.calls[point])
        await world.check_balance()
