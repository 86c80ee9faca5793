"""A crash at every call of a run that archives, and of a restore: never deleted and not archived, never twice."""

from collections import Counter
from datetime import timedelta
from typing import Any

from support.fault_injection import Faults, crash_points, each_kind
from support.ledger_records import archived_by
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    comparable,
    memory,
)

from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, RetentionConfig
from memcore.jobs import Done, Skipped
from memcore.models.memory import MemoryQuery

#: Memories from this age on are archived.
THRESHOLD = 40

POLICY = ConsolidationConfig(
    strategy=CONDENSE,
    archival=ArchivalConfig(enabled=True, age_threshold_days=THRESHOLD),
    retention=RetentionConfig(default_retention_days=900),
    max_memories_per_agent=4,
    group_max_entries=3,
    max_removed_fraction=1.0,
)

WRITES = ("claim", "unclaim", "store_many", "delete_where", "prepare", "settle", "advance", "finish", "hold", "renew")


async def _filled(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    """Two that retention takes, two summaries' worth on both sides of the threshold, and two over the limit."""
    world = make_maintenance_fixture(POLICY)
    await world.store([memory(1, days_old=1000), memory(2, days_old=1001)])
    await world.store(memory(n, days_old=60 - 4 * n, with_vectors=n % 2 == 0) for n in range(3, 11))
    await world.store(memory(n, days_old=n - 10) for n in range(11, 14))
    return world


def _out(world: MaintenanceFixture) -> Counter[str]:
    """How often each memory is out, by the archive."""
    found = world.ledger.archive.search(COMPANY, AGENT, MemoryQuery(limit=1000))
    return Counter(each.original_id for each in found)


def _index(world: MaintenanceFixture, run_id: str) -> set[tuple[str, object]]:
    lines = archived_by(world.ledger, run_id)
    assert len({line.original_id for line in lines}) == len(lines), "a memory is archived twice"
    return {(line.original_id, line.mode) for line in lines}


async def _check_kept(world: MaintenanceFixture, label: object) -> None:
    """Every memory that is gone and was to be archived lies in the archive as it was, whatever has happened so far."""
    live = await world.live()
    for memory_id, original in world.originals.items():
        age = world.clock.at - original.entry.created_at
        if memory_id in live or age < timedelta(days=THRESHOLD) or age > timedelta(days=90):
            continue
        entry = world.ledger.archive.find(COMPANY, AGENT, memory_id)
        assert entry is not None, (label, "deleted and not archived")
        assert comparable(entry.record) == comparable(original), label


async def _fault_free(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> tuple[list[str], Any, set[tuple[str, object]]]:
    world, faults = await _filled(make_maintenance_fixture), Faults()
    run = world.plan_run()
    assert isinstance(await world.watched(faults).run(run.run_id), Done)
    index = _index(world, run.run_id)
    assert len(index) >= 2, "the scenario archives too little to mean anything"
    assert len(index) < sum(journal_entry["removed"] for journal_entry in _moves(world, run.run_id)), (
        "all of it is archived"
    )
    return faults.calls, await world.snapshot(), index


def _moves(world: MaintenanceFixture, run_id: str) -> list[dict[str, int]]:
    return [{"removed": len(journal_entry.outgoing)} for journal_entry in world.ledger.journal.journal_entries(run_id)]


async def test_a_crash_at_any_call_of_a_run_archives_exactly_what_it_deletes(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    calls, after, index = await _fault_free(make_maintenance_fixture)
    world = await _filled(make_maintenance_fixture)
    go_back = world.keep()

    for point in crash_points(calls):
        go_back()
        run = world.plan_run()
        await world.crash(run.run_id, Faults(point))
        await _check_kept(world, (point, calls[point]))

        assert isinstance(await world.to_the_end(run.run_id), Done)

        assert await world.snapshot() == after, (point, calls[point])
        assert _index(world, run.run_id) == index, (point, calls[point])
        assert _out(world) == Counter(original_id for original_id, _ in index), (point, calls[point])
        await _check_kept(world, (point, calls[point]))
        await world.check_balance()


async def test_a_worker_that_is_overtaken_archives_nothing_twice(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    calls, _, _ = await _fault_free(make_maintenance_fixture)
    world = await _filled(make_maintenance_fixture)
    go_back = world.keep()
    points = [n for n in range(2, len(calls)) if calls[n].endswith(WRITES)]
    assert len(points) >= 20, "the scenario has become too small to mean anything"

    for point in each_kind(calls, points):
        go_back()
        run = world.plan_run()

        async def another_takes_over(run_id: str = run.run_id) -> None:
            world.end_lease()
            await world.to_the_end(run_id)

        stall = Faults(point, strike=another_takes_over)
        await world.watched(stall, monotonic=lambda: 0.0).run(run.run_id)
        await _check_kept(world, (point, calls[point]))
        # What the sleeper still wrote down is a decision; the agent's next run carries it out.
        await world.maintenance_run()
        await _check_kept(world, (point, calls[point]))
        live = await world.live()
        out = _out(world)
        assert all(count == 1 for count in out.values()), (point, calls[point])
        assert not out.keys() & live.keys(), (point, calls[point])
        await world.check_balance()


async def test_a_crash_at_any_call_of_a_restore_restores_all_the_same(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = await _filled(make_maintenance_fixture)
    await world.maintenance_run()
    (eviction_candidate, *_) = sorted(_out(world))
    go_back = world.keep()
    counted = Faults()
    run = world.plan_run(kind="restore", scope_id=eviction_candidate)
    assert isinstance(await world.watched(counted).run(run.run_id), Done)
    after, out = await world.snapshot(), _out(world)
    assert len(counted.calls) >= 12, "the scenario has become too small to mean anything"

    for point in crash_points(counted.calls):
        go_back()
        run = world.plan_run(kind="restore", scope_id=eviction_candidate)
        await world.crash(run.run_id, Faults(point))
        outcome = await world.to_the_end(run.run_id)
        assert isinstance(outcome, Done), (point, counted.calls[point], outcome)
        assert outcome.facts == {"restored": 1}
        assert await world.snapshot() == after, (point, counted.calls[point])
        assert _out(world) == out
        await world.check_balance()

    go_back()
    run = world.plan_run(kind="restore", scope_id=eviction_candidate)
    await world.crash(run.run_id, Faults(len(counted.calls) - 1, is_after=True))
    assert isinstance(await world.to_the_end(run.run_id), Skipped)
    assert await world.snapshot() == after


async def test_a_restore_that_is_overtaken_harms_nothing(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = await _filled(make_maintenance_fixture)
    await world.maintenance_run()
    (eviction_candidate, *_) = sorted(_out(world))
    go_back = world.keep()
    counted = Faults()
    run = world.plan_run(kind="restore", scope_id=eviction_candidate)
    await world.watched(counted).run(run.run_id)
    after = await world.snapshot()

    for point in each_kind(counted.calls, range(2, len(counted.calls))):
        go_back()
        run = world.plan_run(kind="restore", scope_id=eviction_candidate)

        async def another_takes_over(run_id: str = run.run_id) -> None:
            world.end_lease()
            await world.to_the_end(run_id)

        stall = Faults(point, strike=another_takes_over)
        outcome = await world.watched(stall, monotonic=lambda: 0.0).run(run.run_id)
        assert not isinstance(outcome, Done), (point, counted.calls[point])
        assert await world.snapshot() == after, (point, counted.calls[point])
        for journal_entry in world.ledger.journal.open_of(COMPANY, AGENT):
            assert journal_entry.run_id == run.run_id
        await world.maintenance_run()
        await world.check_balance()
