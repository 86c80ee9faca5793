"""The machine's clock goes far ahead, or back: retention asks a person, and nothing waits for years."""

from datetime import timedelta

import pytest
from support.maintenance_fixture import COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, RetentionConfig
from memcore.jobs import Done, Skipped
from memcore.ledger.work_items import WorkState

POLICY = ConsolidationConfig(
    strategy=ConsolidationStrategyType.NONE, retention=RetentionConfig(default_retention_days=90)
)


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    """An agent whose memories are young, and an installation whose beat runs."""
    made = make_maintenance_fixture(POLICY)
    await made.store(memory(n, days_old=5) for n in range(1, 31))
    made.ledger.ticks.note(COMPANY, sent=0)
    return made


def tick(world: MaintenanceFixture) -> None:
    world.ledger.ticks.watch(COMPANY)
    world.ledger.ticks.note(COMPANY, sent=0)


@pytest.mark.parametrize("ticks", [0, 1, 3], ids="after {} ticks".format)
async def test_a_clock_that_went_400_days_ahead_removes_nothing_unasked(world: MaintenanceFixture, ticks: int) -> None:
    world.clock.turn(timedelta(days=400))
    for _ in range(ticks):
        tick(world)
    planned = world.plan_run()
    assert isinstance(await world.to_the_end(planned.run_id), Skipped)
    run = world.run(planned.run_id)
    assert run.state is WorkState.HELD
    assert run.counts["planned"] == 30
    assert "the clock jumped" in (run.reason or "")
    assert len(await world.live()) == 30
    assert world.ledger.ticks.doubted()

    # The clock is put right: the next run looks again, and finds nothing.
    world.clock.turn(timedelta(days=-400, minutes=5))
    tick(world)
    assert not world.ledger.ticks.doubted()
    world.ledger.runs.dismiss(COMPANY, run.run_id, by="Ada")
    assert isinstance(await world.to_the_end(world.plan_run().run_id), Done)
    assert len(await world.live()) == 30


async def test_a_released_run_removes_and_its_agents_next_one_asks_no_more(world: MaintenanceFixture) -> None:
    world.clock.turn(timedelta(days=400))
    tick(world)
    held = world.plan_run()
    await world.to_the_end(held.run_id)
    world.ledger.runs.approve_held(COMPANY, held.run_id)
    assert isinstance(await world.to_the_end(held.run_id), Done)
    assert await world.live() == {}

    world.clock.turn(timedelta(days=1))
    await world.store([memory(40, days_old=100)])
    tick(world)
    run = await world.maintenance_run()
    assert run.counts["retention"] == 1


@pytest.mark.parametrize("days", [-0.02, 1, 14, 29])
async def test_a_holiday_and_a_corrected_clock_are_no_jump(world: MaintenanceFixture, days: float) -> None:
    world.clock.turn(timedelta(days=days))
    await world.store([memory(40, days_old=100)])
    tick(world)
    run = await world.maintenance_run()
    assert run.counts["retention"] == 1
    assert uid(40) not in await world.live()
    assert not world.ledger.ticks.doubted()


async def test_a_clock_that_starts_in_1970_is_a_jump_until_it_is_right(world: MaintenanceFixture) -> None:
    right = world.clock()
    world.clock.turn(timedelta(days=-20_000))
    tick(world)
    assert world.ledger.ticks.doubted()
    world.clock.turn(right - world.clock() + timedelta(minutes=3))
    tick(world)
    assert not world.ledger.ticks.doubted()
