"""Runs that archive what they remove, and runs that bring it back, as it was."""

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from support.ledger_records import archived_by
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    START,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    comparable,
    memory,
    uid,
)

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, RetentionConfig
from memcore.jobs import Dead, Done, Outcome, Skipped
from memcore.ledger.archive import Archived
from memcore.ledger.runs import Run
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.strategy import (
    ChunkLimits,
    CompositeConsolidationStrategy,
    HighestRelevanceSelector,
    SummaryDraft,
)
from memcore.models.archival import ArchivalMode
from memcore.models.memory import MemoryCategory, MemoryLevel, MemoryQuery
from memcore.models.origin import Channel, Origin
from memcore.records import ORIGIN_KEY, Lineage, MemoryRecord


def policy(**changes: Any) -> ConsolidationConfig:
    return ConsolidationConfig(
        **{"strategy": ConsolidationStrategyType.CONDENSE, "max_removed_fraction": 1.0, **changes}
    )


def archived(world: MaintenanceFixture, agent_id: str = AGENT) -> dict[str, Archived]:
    found = world.ledger.archive.search(COMPANY, agent_id, MemoryQuery(limit=1000))
    whole = (world.ledger.archive.find(COMPANY, agent_id, each.archival_id) for each in found)
    return {each.original_id: each for each in whole if each is not None}


async def restored(world: MaintenanceFixture, entry_id: str, *, agent_id: str = AGENT) -> tuple[Run, Outcome]:
    run = world.plan_run(kind="restore", scope_id=entry_id, agent_id=agent_id)
    return world.run(run.run_id), await world.to_the_end(run.run_id)


async def removed_by_enforcement(world: MaintenanceFixture, *records: MemoryRecord) -> Run:
    """Let a run take the records and nothing else: they are the least worth, and one stays."""
    await world.store([*records, memory(999, days_old=0, category=records[0].entry.category)])
    return await world.maintenance_run()


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture(policy(max_memories_per_agent=1, strategy=ConsolidationStrategyType.NONE))


async def test_what_a_summary_replaced_and_what_the_limit_took_is_archived(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(policy(max_memories_per_agent=5, strategy=ConsolidationStrategyType.CONDENSE))
    old = [memory(n, days_old=60, category=MemoryCategory.SOCIAL, with_vectors=n % 2 == 0) for n in range(1, 5)]
    young = [memory(n, days_old=0.001 * n, category=MemoryCategory.SOCIAL) for n in range(5, 8)]
    merged = [memory(n, days_old=40 - n) for n in range(11, 16)]
    await world.store([*old, *young, *merged])
    maintenance_run = await world.maintenance_run()

    live = await world.live()
    enforced = {record.entry.id for record in [*old, *young]} - live.keys()
    assert enforced == {uid(n) for n in (1, 2, 3, 4)}
    kept = archived(world)
    assert set(kept) == enforced | {uid(n) for n in range(11, 15)}
    for memory_id, entry in kept.items():
        assert comparable(entry.record) == comparable(world.originals[memory_id])
        assert entry.mode is ArchivalMode.EXTRACTIVE
    assert {line.original_id for line in archived_by(world.ledger, maintenance_run.run_id)} == set(kept)


async def test_what_the_limit_takes_is_archived_however_young_it_is(world: MaintenanceFixture) -> None:
    await removed_by_enforcement(world, memory(1, days_old=1), memory(2, days_old=300))
    assert set(archived(world)) == {uid(1), uid(2)}


async def test_what_retention_an_expiry_or_an_end_removes_was_to_be_deleted(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(policy(retention=RetentionConfig(default_retention_days=90)))
    world.level = MemoryLevel.SESSION
    session = Lineage(session_id="s")
    await world.store(
        [
            memory(1, days_old=100, lineage=session),
            memory(2, days_old=50, expires_in_days=-1, lineage=session),
            memory(3, days_old=50, lineage=session),
        ]
    )
    await world.maintenance_run()
    await world.end("end_session", "s")
    assert await world.live() == {}
    assert archived(world) == {}


async def test_the_op_says_how_its_sources_are_archived(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    class Abstracting:
        async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
            del kept
            return SummaryDraft(content=f"{len(sources)} in a few words", mode=ArchivalMode.ABSTRACTIVE)

    world = make_maintenance_fixture(policy())
    await world.store(memory(n, days_old=60) for n in range(1, 5))
    pair = CompositeConsolidationStrategy(
        HighestRelevanceSelector(), Abstracting(), name="pair", limits=ChunkLimits(max_entries=20)
    )
    run = world.plan_run()
    outcome = await world.service(build_strategy=lambda _: pair).run(run.run_id)
    assert isinstance(outcome, Done)
    modes = {line.mode for line in archived_by(world.ledger, run.run_id)}
    assert modes == {ArchivalMode.ABSTRACTIVE}
    assert len(archived(world)) == 3


@pytest.mark.parametrize("by_own_id", [True, False])
async def test_a_restore_brings_a_memory_back_as_it_was_and_holds_it(
    world: MaintenanceFixture, *, by_own_id: bool
) -> None:
    gone = memory(
        1, days_old=80, namespace="work", tags=("a", "b"), confidence=0.25, expires_in_days=9, with_vectors=True
    )
    origin = Origin(channels=(Channel.TOOL,), principals=("key",))
    gone = dataclasses.replace(gone, extra={**gone.extra, ORIGIN_KEY: origin.stored()})
    await removed_by_enforcement(world, gone)
    entry = archived(world)[uid(1)]
    assert world.ledger.journal.tombstoned({uid(1): START - timedelta(days=1)})

    run, outcome = await restored(world, uid(1) if by_own_id else entry.archival_id)

    assert outcome == Done(facts={"restored": 1})
    assert world.run(run.run_id).state is WorkState.DONE
    assert (await world.snapshot())[uid(1)] == comparable(gone)
    assert (await world.live())[uid(1)].entry.origin == origin
    assert not world.ledger.journal.tombstoned({uid(1): START - timedelta(days=1)})
    assert uid(1) in world.ledger.journal.protected_by_undo(COMPANY, AGENT)
    assert archived(world) == {}
    await world.maintenance_run()
    assert uid(1) in await world.live()
    await world.check_balance()


async def test_a_restored_memory_may_be_archived_again_when_its_hold_is_over(world: MaintenanceFixture) -> None:
    first = await removed_by_enforcement(world, memory(1, days_old=80))
    await restored(world, uid(1))
    world.clock.turn(timedelta(days=2))
    second = await world.maintenance_run()
    entry = archived(world)[uid(1)]
    assert entry.run_id == second.run_id
    assert world.ledger.archive.archived_by(first.run_id) == 1
    _, outcome = await restored(world, uid(1))
    assert outcome == Done(facts={"restored": 1})
    await world.check_balance()


async def test_a_memory_that_stands_in_the_store_is_left_alone_and_the_run_says_so(world: MaintenanceFixture) -> None:
    await removed_by_enforcement(world, memory(1, days_old=80))
    await restored(world, uid(1))
    before = await world.snapshot()
    run, outcome = await restored(world, uid(1))
    assert isinstance(outcome, Skipped)
    assert "stands in the store" in outcome.reason
    row = world.run(run.run_id)
    assert (row.state, row.reason, row.counts) == (WorkState.SKIPPED, outcome.reason, {"restored": 0})
    assert await world.snapshot() == before


@pytest.mark.parametrize("agent_id", [AGENT, "bob"])
async def test_what_the_agent_never_had_in_the_archive_is_not_restored(
    world: MaintenanceFixture, agent_id: str
) -> None:
    await removed_by_enforcement(world, memory(1, days_old=80))
    entry_id = archived(world)[uid(1)].archival_id if agent_id == "bob" else "nobody's"
    run, outcome = await restored(world, entry_id, agent_id=agent_id)
    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith("scope_id: ")
    assert world.run(run.run_id).state is WorkState.FAILED
    assert await world.live("bob") == {}


async def test_what_came_back_and_was_deleted_since_is_not_restored_from_the_archive(world: MaintenanceFixture) -> None:
    await removed_by_enforcement(world, memory(1, days_old=80))
    entry_id = archived(world)[uid(1)].archival_id
    await restored(world, entry_id)
    await world.backend.delete(AGENT, uid(1))
    _, outcome = await restored(world, entry_id)
    assert isinstance(outcome, Dead)
    assert uid(1) not in await world.live()


async def test_a_restore_can_be_undone_and_that_too(world: MaintenanceFixture) -> None:
    await removed_by_enforcement(world, memory(1, days_old=80, with_vectors=True))
    before, in_archive = await world.snapshot(), set(archived(world))
    run, _ = await restored(world, uid(1))
    after = await world.snapshot()

    undo = await world.undo(run.run_id)
    assert undo.counts == {"restored": 0, "removed": 1, "skipped": 0}
    assert await world.snapshot() == before
    assert set(archived(world)) == in_archive == {uid(1)}

    await world.undo(undo.run_id)
    assert await world.snapshot() == after
    assert archived(world) == {}
    await world.check_balance()


async def test_undoing_the_run_takes_its_memories_out_of_the_archive_and_undoing_that_puts_them_back(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(policy(max_memories_per_agent=2))
    await world.store(memory(n, days_old=60 + n, with_vectors=n % 2 == 0) for n in range(1, 9))
    before = await world.snapshot()
    maintenance_run = await world.maintenance_run()
    after, in_archive = await world.snapshot(), set(archived(world))
    assert in_archive

    undo = await world.undo(maintenance_run.run_id)
    assert await world.snapshot() == before
    assert archived(world) == {}
    assert world.ledger.archive.archived_by(maintenance_run.run_id) == len(in_archive)

    await world.undo(undo.run_id)
    assert await world.snapshot() == after
    assert set(archived(world)) == in_archive
    await world.check_balance()


async def test_what_was_restored_stays_when_its_run_is_undone(world: MaintenanceFixture) -> None:
    maintenance_run = await removed_by_enforcement(world, memory(1, days_old=80), memory(2, days_old=81))
    await restored(world, uid(1))
    undo = await world.undo(maintenance_run.run_id)
    assert undo.counts == {"restored": 1, "removed": 0, "skipped": 1}
    assert {uid(1), uid(2)} <= (await world.live()).keys()
    assert archived(world) == {}
    await world.check_balance()


async def test_a_pause_does_not_stand_between_a_person_and_a_memory(world: MaintenanceFixture) -> None:
    await removed_by_enforcement(world, memory(1, days_old=80))
    world.ledger.companies.pause(COMPANY)
    _, outcome = await restored(world, uid(1))
    assert isinstance(outcome, Done)


async def test_vectors_of_another_embedder_are_left_behind(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = memory(1, days_old=80, with_vectors=True)
    space = "first (static, 3 dimensions, text '{content}')"
    monkeypatch.setattr(type(world.backend), "vector_space", property(lambda _: space))
    await removed_by_enforcement(world, gone)
    monkeypatch.setattr(type(world.backend), "vector_space", property(lambda _: space.replace("first", "second")))
    await restored(world, uid(1))
    assert (await world.snapshot())[uid(1)] == comparable(dataclasses.replace(gone, vectors=None))


async def test_the_archive_is_there_when_the_journal_has_expired(world: MaintenanceFixture) -> None:
    gone = memory(1, days_old=80, with_vectors=True)
    maintenance_run = await removed_by_enforcement(world, gone)
    world.clock.turn(timedelta(days=400))
    world.ledger.journal.expire(COMPANY, before=world.clock())
    assert not world.ledger.journal.undoable(maintenance_run.run_id)
    _, outcome = await restored(world, uid(1))
    assert isinstance(outcome, Done)
    assert (await world.snapshot())[uid(1)] == comparable(gone)
