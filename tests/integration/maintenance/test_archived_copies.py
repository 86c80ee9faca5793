"""The archive's index follows every run: what a summary replaced can be found for as long as the summary is there."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from support.fault_injection import AT_CALLS, Crash, Faults, crash_points, stall_points
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid

from memcore.backends.deletion import Deletion
from memcore.config.maintenance import (
    ArchivalConfig,
    ConsolidationConfig,
    ConsolidationStrategyType,
    RetentionConfig,
)
from memcore.config.urls import LedgerUrls
from memcore.jobs import Done
from memcore.maintenance.consolidation.strategy import (
    CompositeConsolidationStrategy,
    ConcatenationOp,
    HighestRelevanceSelector,
    SummaryDraft,
)
from memcore.models.memory import MemoryMetadata
from memcore.records import MemoryRecord

POLICY = ConsolidationConfig(
    strategy=ConsolidationStrategyType.CONDENSE,
    group_max_entries=3,
    max_removed_fraction=1.0,
    retention=RetentionConfig(default_retention_days=900),
)

#: Each original by its id, with the summary by which it is found.
Index = dict[str, str]


async def indexed(world: MaintenanceFixture) -> Index:
    copies = await world.backend.indexed_archived(AGENT)
    found = {copy.record.entry.id: copy.summary_id for copy in copies}
    assert len(found) == len(copies), "an original has two copies"
    return found


async def check_findable(world: MaintenanceFixture, label: object) -> None:
    """Every original is in the store, or found by a summary that is; its copy is the archive's."""
    live, copies = await world.live(), await world.backend.indexed_archived(AGENT)
    found = {copy.record.entry.id for copy in copies if copy.summary_id in live}
    for memory_id, original in world.originals.items():
        assert memory_id in live or memory_id in found, (label, "neither in the store nor in the index")
        archived = world.ledger.archive.find(COMPANY, AGENT, memory_id)
        for copy in copies:
            if copy.record.entry.id == memory_id:
                assert copy.record.entry == original.entry, label
                assert archived is not None, label
                assert archived.archival_id == copy.archival_id, label


async def filled(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    world = make_maintenance_fixture(POLICY)
    await world.store(memory(n, days_old=60 - 4 * n, with_vectors=n % 2 == 0) for n in range(1, 8))
    return world


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return await filled(make_maintenance_fixture)


async def test_a_crash_at_any_call_leaves_every_original_in_the_store_or_the_index(world: MaintenanceFixture) -> None:
    go_back, counted = world.keep(), Faults()
    run = world.plan_run()
    service = world.watched(counted)
    assert isinstance(await service.run(run.run_id), Done)
    after, live = await indexed(world), await world.snapshot()
    assert len(after) == 6
    assert "backend.index_archived" in counted.calls

    for point in crash_points(counted.calls):
        for is_after in AT_CALLS:
            go_back()
            faults, run = Faults(point, is_after=is_after), world.plan_run()
            with pytest.raises(Crash):
                await world.watched(faults).run(run.run_id)
            await check_findable(world, (point, counted.calls[point]))
            world.end_lease()
            await world.to_the_end(run.run_id)
            assert await indexed(world) == after, (point, counted.calls[point])
            assert await world.snapshot() == live, (point, counted.calls[point])
            await check_findable(world, (point, counted.calls[point]))


async def test_a_worker_that_is_overtaken_leaves_the_index_as_it_should_be(world: MaintenanceFixture) -> None:
    go_back, counted = world.keep(), Faults()
    run = world.plan_run()
    await world.watched(counted).run(run.run_id)
    after = await indexed(world)

    for undone in (False, True):
        for point in stall_points(counted.calls):
            go_back()
            run = world.plan_run()

            async def another_takes_over(run_id: str = run.run_id, undone: bool = undone) -> None:
                world.end_lease()
                await world.to_the_end(run_id)
                if undone:
                    await world.undo(run_id)

            stall = Faults(point, strike=another_takes_over)
            watched = world.watched(stall, monotonic=lambda: 0.0)
            await watched.run(run.run_id)
            await check_findable(world, (point, counted.calls[point]))
            # What the sleeper still decided is an entry like any other: the agent's next run carries it out.
            if not undone:
                assert await indexed(world) == after, (point, counted.calls[point])
            assert set((await indexed(world)).values()) <= (await world.live()).keys(), (point, counted.calls[point])
            await world.maintenance_run()
            await check_findable(world, (point, counted.calls[point]))


async def test_an_undo_takes_the_copies_away_and_its_undo_brings_them_back(world: MaintenanceFixture) -> None:
    run = await world.maintenance_run()
    after = await indexed(world)
    undo = await world.undo(run.run_id)
    assert await indexed(world) == {}
    world.clock.turn(timedelta(minutes=1))
    again = await world.undo(undo.run_id)
    assert await indexed(world) == after
    await check_findable(world, "redone")
    await world.undo(again.run_id)
    assert await indexed(world) == {}


def keep_days(world: MaintenanceFixture, days: int) -> None:
    archival = ArchivalConfig(enabled=True, keep_days=days)
    world.policy = world.policy.model_copy(update={"archival": archival})


async def untag(world: MaintenanceFixture) -> None:
    """Let a run merge the summaries again: only their tag protects them."""
    for summary in await world.summaries():
        await world.backend.set_metadata_many(AGENT, [summary.entry.id], MemoryMetadata(source="consolidation"))


async def two_levels(make_maintenance_fixture: MakeMaintenanceFixture) -> tuple[MaintenanceFixture, Index, str]:
    """Run twice, the second time over the summaries of the first; return the index between, and the second run."""
    world = await filled(make_maintenance_fixture)
    await world.maintenance_run()
    between = await indexed(world)
    await untag(world)
    await world.store(memory(n, days_old=30 - n) for n in range(20, 23))
    second = await world.maintenance_run()
    assert any(record.lineage.depth == 2 for record in await world.summaries())
    return world, between, second.run_id


async def test_a_summary_of_summaries_leads_to_the_leaves_and_an_undo_back(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, between, second = await two_levels(make_maintenance_fixture)
    found = await indexed(world)
    assert between.keys() < found.keys()
    assert found.keys() <= world.originals.keys(), "a summary of the first run is found beside its originals"
    assert set(found.values()) == {record.entry.id for record in await world.summaries()}
    await check_findable(world, "two levels")

    undo = await world.undo(second)
    assert await indexed(world) == between
    await check_findable(world, "one level again")
    await world.undo(undo.run_id)
    assert await indexed(world) == found


async def test_a_summary_of_the_archive_stands_for_originals_that_the_archive_has_no_more(
    world: MaintenanceFixture,
) -> None:
    await world.maintenance_run()
    first = {record.entry.id for record in await world.summaries()}
    assert await world.service().expire_archive() == 0
    keep_days(world, 20)
    world.clock.turn(timedelta(days=21))
    assert await world.service().expire_archive() == 6
    assert await indexed(world) == {}
    assert await world.service().expire_archive() == 0
    await untag(world)
    await world.store(memory(n, days_old=30 - n) for n in range(20, 23))
    await world.maintenance_run()
    merged = first - (await world.live()).keys()
    assert merged
    assert merged <= (await indexed(world)).keys()


async def test_copies_go_before_their_entries_of_the_archive(world: MaintenanceFixture) -> None:
    await world.maintenance_run()
    faults = Faults(None)
    keep_days(world, 20)
    world.clock.turn(timedelta(days=21))
    await world.watched(faults).expire_archive()
    assert faults.calls.index("backend.unindex_archived") < faults.calls.index("archive.drop")


async def test_what_a_summary_stood_for_cannot_be_found_once_it_is_too_old_but_for_an_undo(
    world: MaintenanceFixture,
) -> None:
    await world.maintenance_run()
    before, summaries = await indexed(world), {record.entry.id for record in await world.summaries()}
    world.clock.turn(timedelta(days=900))
    counted, run = Faults(), world.plan_run()
    await world.watched(counted).run(run.run_id)
    assert not summaries & (await world.live()).keys()
    assert await indexed(world) == {}
    assert counted.calls.index("backend.unindex_archived") < counted.calls.index("backend.delete_where")
    await world.undo(run.run_id)
    assert await indexed(world) == before


async def test_deleting_a_summary_takes_the_copies_away_and_undoing_it_brings_them_back(
    world: MaintenanceFixture,
) -> None:
    await world.maintenance_run()
    before, gone = await indexed(world), (await world.summaries())[0].entry.id
    deletion = Deletion(LedgerUrls(ledger="sqlite:///x", journal="sqlite:///x"), company=COMPANY, clock=world.clock)
    deletion._ledger = world.ledger
    assert await deletion.delete(world.backend, AGENT, gone)
    assert await indexed(world) == {key: summary_id for key, summary_id in before.items() if summary_id != gone}
    (run, *_) = world.ledger.runs.list(COMPANY, agent_id=AGENT, limit=1)
    await world.undo(run.run_id)
    assert await indexed(world) == before


async def test_a_restored_memory_has_no_copy(world: MaintenanceFixture) -> None:
    await world.maintenance_run()
    before = await indexed(world)
    run = world.plan_run(kind="restore", scope_id=uid(1))
    assert isinstance(await world.to_the_end(run.run_id), Done)
    assert await indexed(world) == {key: summary_id for key, summary_id in before.items() if key != uid(1)}
    await world.undo(run.run_id)
    assert await indexed(world) == before


async def test_a_summary_that_loses_nothing_needs_no_copies(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    class Whole(ConcatenationOp):
        async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
            return replace(await super().write(sources, kept=kept), is_lossless=True)

    world = await filled(make_maintenance_fixture)
    strategy = CompositeConsolidationStrategy(HighestRelevanceSelector(), Whole(), name="whole")
    run = world.plan_run()
    assert isinstance(await world.service(build_strategy=lambda _deps: strategy).run(run.run_id), Done)
    (summary,) = await world.summaries()
    assert summary.is_lossless
    assert await indexed(world) == {}
    # A later summary of it that does lose text leads to it, and not to what it says in full.
    await untag(world)
    await world.store(memory(n, days_old=30 - n) for n in range(20, 23))
    await world.maintenance_run()
    found = await indexed(world)
    assert summary.entry.id in found
    assert uid(1) not in found
