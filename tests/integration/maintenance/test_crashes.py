"""A crash at every single call of a run and of an undo, and a worker that is overtaken at any of them."""

from collections import Counter

import pytest
from support.fault_injection import Faults, crash_points, each_kind
from support.maintenance_fixture import AGENT, CONDENSE, MaintenanceFixture, MakeMaintenanceFixture, memory
from support.thorough import sized

from memcore.config.maintenance import ConsolidationConfig, RetentionConfig
from memcore.jobs import Done, Skipped
from memcore.ledger.work_items import WorkState
from memcore.records import Where

POLICY = ConsolidationConfig(
    strategy=CONDENSE,
    retention=RetentionConfig(default_retention_days=90),
    max_memories_per_agent=4,
    group_max_entries=3,
    max_removed_fraction=1.0,
)

#: Calls that change something: between two of them a stall can only change what is read.
WRITES = ("claim", "unclaim", "store_many", "delete_where", "prepare", "settle", "advance", "finish", "hold", "renew")


class FaultFreeRun:
    """What a run without trouble and its undo leave, and the calls that they make."""

    def __init__(self) -> None:
        self.before: dict[str, object] = {}
        self.after: dict[str, object] = {}
        self.maintenance_run = Faults()
        self.undo = Faults()

    @classmethod
    async def of(cls, make_maintenance_fixture: MakeMaintenanceFixture) -> "FaultFreeRun":
        world, seen = await _filled(make_maintenance_fixture), cls()
        seen.before = await world.snapshot()
        run = world.plan_run()
        await world.watched(seen.maintenance_run).run(run.run_id)
        assert world.run(run.run_id).counts == {
            "planned": 8,
            "ended": 0,
            "retention": 2,
            "pruned": 0,
            "expired": 1,
            "consolidated": 6,
            "summaries": 2,
            "enforced": 2,
        }
        seen.after = await world.snapshot()
        await world.watched(seen.undo).run(world.plan_run(undo_of=run.run_id).run_id)
        assert await world.snapshot() == seen.before
        assert len(seen.maintenance_run.calls) >= 90, "the scenario has become too small to mean anything"
        assert len(seen.undo.calls) >= 60, "the scenario has become too small to mean anything"
        return seen


async def _filled(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    """Two that are too old, one that has expired, two summaries' worth, and two over the limit."""
    world = make_maintenance_fixture(POLICY)
    await world.store([memory(1, days_old=100), memory(2, days_old=101), memory(3, days_old=1, expires_in_days=-0.5)])
    await world.store(memory(n, days_old=60 - n, with_vectors=n % 2 == 0) for n in range(4, 11))
    await world.store(memory(n, days_old=n - 10) for n in range(11, 14))
    return world


async def _check_summaries(world: MaintenanceFixture) -> None:
    sources = Counter(source for summary in await world.summaries() for source in summary.lineage.summary_of)
    assert all(count == 1 for count in sources.values()), "a memory stands in two summaries"


@pytest.mark.slow(because="dozens of crashes, each with the run that follows")
async def test_a_crash_at_any_call_of_a_run_loses_nothing_and_changes_nothing(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    seen = await FaultFreeRun.of(make_maintenance_fixture)
    calls = seen.maintenance_run.calls
    world = await _filled(make_maintenance_fixture)
    go_back = world.keep()

    # A crash after a call is the crash before the next one.
    for point in crash_points(calls):
        go_back()
        run = world.plan_run()
        await world.crash(run.run_id, Faults(point))

        outcome = await world.to_the_end(run.run_id)

        assert isinstance(outcome, Done), (point, calls[point], outcome)
        assert await world.snapshot() == seen.after, (point, calls[point])
        assert world.run(run.run_id).counts["consolidated"] == 6
        await world.check_balance()
        await _check_summaries(world)
        assert not world.backend._marks


async def test_a_crash_after_the_last_call_leaves_a_finished_run(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    seen = await FaultFreeRun.of(make_maintenance_fixture)
    world = await _filled(make_maintenance_fixture)
    run = world.plan_run()
    await world.crash(run.run_id, Faults(len(seen.maintenance_run.calls) - 1, is_after=True))

    assert isinstance(await world.to_the_end(run.run_id), Skipped)
    assert world.run(run.run_id).state is WorkState.DONE
    assert await world.snapshot() == seen.after


async def test_two_crashes_in_a_row_are_as_harmless_as_one(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    seen = await FaultFreeRun.of(make_maintenance_fixture)
    calls = seen.maintenance_run.calls
    world = await _filled(make_maintenance_fixture)
    go_back = world.keep()

    for point in range(3, len(calls), sized(20, thorough=3)):
        go_back()
        run = world.plan_run()
        await world.crash(run.run_id, Faults(point))
        go_on = world.keep()
        rest = Faults()
        await world.watched(rest).run(run.run_id)
        go_on()
        await world.crash(run.run_id, Faults(1 + point * 7 % (len(rest.calls) - 1)))

        await world.to_the_end(run.run_id)

        assert await world.snapshot() == seen.after, (point, calls[point])
        await world.check_balance()


@pytest.mark.slow(because="dozens of crashes, each with the run that follows")
async def test_a_crash_at_any_call_of_an_undo_restores_everything_all_the_same(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    seen = await FaultFreeRun.of(make_maintenance_fixture)
    calls = seen.undo.calls
    world = await _filled(make_maintenance_fixture)
    maintenance_run = await world.maintenance_run()
    go_back = world.keep()

    for point in crash_points(calls):
        go_back()
        run = world.plan_run(undo_of=maintenance_run.run_id)
        await world.crash(run.run_id, Faults(point))

        outcome = await world.to_the_end(run.run_id)

        assert isinstance(outcome, Done), (point, calls[point], outcome)
        assert await world.snapshot() == seen.before, (point, calls[point])
        await world.check_balance()


async def test_a_worker_that_is_overtaken_at_any_call_harms_nothing(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    calls = (await FaultFreeRun.of(make_maintenance_fixture)).maintenance_run.calls
    points = [n for n in range(2, len(calls)) if n % sized(6, thorough=1) == 0 or calls[n].endswith(WRITES)]
    assert len(points) >= 30, "the scenario has become too small to mean anything"

    world = await _filled(make_maintenance_fixture)
    go_back = world.keep()

    for point in each_kind(calls, points):
        go_back()
        run = world.plan_run()

        async def another_takes_over(run_id: str = run.run_id) -> None:
            world.end_lease()
            await world.to_the_end(run_id)

        stall = Faults(point, strike=another_takes_over)
        # A stopped steady clock is the worst case: the sleeper does not even know that it slept.
        outcome = await world.watched(stall, monotonic=lambda: 0.0).run(run.run_id)

        assert len(stall.calls) > point, "the stall never came"
        assert not isinstance(outcome, Done), (point, calls[point])
        there = (await world.live()).keys() | world.all_journaled().keys()
        assert set(world.originals) <= there, (point, calls[point])
        # What the sleeper still wrote down is a decision; the agent's next run carries it out.
        await world.maintenance_run()
        await world.check_balance()
        await _check_summaries(world)


async def test_an_old_token_deletes_nothing(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    calls = (await FaultFreeRun.of(make_maintenance_fixture)).maintenance_run.calls
    world = await _filled(make_maintenance_fixture)
    run = world.plan_run()
    await world.crash(run.run_id, Faults(calls.index("backend.delete_where")))
    (old,) = set(world.backend._marks.values())
    assert await world.backend.count_where(Where(agent_id=AGENT, token=old)) > 0

    await world.service().run(run.run_id)

    assert await world.backend.delete_where(Where(agent_id=AGENT, token=old)) == 0
    await world.check_balance()
