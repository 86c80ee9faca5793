"""Undo: a run that went wrong never happened, and an undo that went wrong neither."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from support.fake_summarizer import FakeSummarizer
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    MaintenanceFixture,
    memory,
    opened_world,
    uid,
)
from support.present import present
from support.random_histories import POLICIES, PRUNINGS, stores
from support.thorough import examples
from support.undo_checks import left_by

from memcore.config.maintenance import ConsolidationConfig, PruningConfig, RetentionConfig
from memcore.config.policy import Policy
from memcore.jobs import Dead
from memcore.ledger.attempt import RetryPolicy
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.models.memory import MemoryMetadata
from memcore.records import MemoryRecord
from scheduler.expire import expire_company


@given(records=stores(), policy=POLICIES, pruning=PRUNINGS)
@settings(max_examples=examples(6))
def test_an_undo_restores_any_store_exactly_and_its_own_undo_the_run(
    ledger_template: Path,
    records: list[MemoryRecord],
    policy: ConsolidationConfig,
    pruning: PruningConfig | None,
) -> None:
    with opened_world(ledger_template, policy) as world:
        world.model, world.pruning = FakeSummarizer(), pruning
        asyncio.run(_there_and_back(world, records))


async def _there_and_back(world: MaintenanceFixture, records: list[MemoryRecord]) -> None:
    await world.store(records)
    before = await world.snapshot()
    maintenance_run = await world.maintenance_run()
    after = await world.snapshot()
    await world.check_balance()

    undo = await world.undo(maintenance_run.run_id)

    assert await world.snapshot() == before
    assert (undo.counts["skipped"], undo.reason) == (0, None)
    removed = ("retention", "expired", "pruned", "consolidated", "enforced")
    assert undo.counts["restored"] == sum(maintenance_run.counts[step] for step in removed)
    await world.check_balance()

    await world.undo(undo.run_id)

    assert await world.snapshot() == after
    await world.check_balance()


async def test_what_an_agent_changed_since_is_left_alone_and_listed(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 6))
    maintenance_run = await world.maintenance_run()
    (summary,) = await world.summaries()
    pinned = MemoryMetadata(source="consolidation", tags=("pinned",))
    await world.backend.set_metadata_many(AGENT, [summary.entry.id], pinned)
    again = memory(2, days_old=0, content="stored anew")
    await world.backend.store_many([again])

    undo = await world.undo(maintenance_run.run_id)

    live = await world.live()
    assert set(live) == {uid(n) for n in range(1, 6)} | {summary.entry.id}
    assert live[uid(2)].entry.content == "stored anew"
    assert left_by(world.ledger.journal, undo) == ((uid(2),), (summary.entry.id,))
    assert undo.counts == {"restored": 3, "removed": 0, "skipped": 2}
    # Only what came back is protected from the next runs.
    assert uid(2) not in world.ledger.journal.protected_by_undo(COMPANY, AGENT)


async def test_what_a_later_run_decided_is_left_alone_and_listed(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 6))
    first = await world.maintenance_run()
    await world.undo(first.run_id)
    world.clock.turn(timedelta(days=2))
    second = await world.maintenance_run()
    assert second.counts["consolidated"] == 4
    after = await world.snapshot()

    undo = await world.undo(first.run_id)

    assert await world.snapshot() == after
    assert undo.counts["skipped"] == 5
    assert undo.reason == "nothing was undone: all of it has changed since; of several runs undo the newest first"
    await world.check_balance()


async def test_restored_memories_are_held_for_a_while_from_all_three_steps(world: MaintenanceFixture) -> None:
    world.policy = ConsolidationConfig(
        strategy=CONDENSE,
        retention=RetentionConfig(default_retention_days=20),
        max_memories_per_agent=2,
        max_removed_fraction=1.0,
    )
    await world.store(memory(n, days_old=19) for n in range(1, 6))
    await world.store(memory(n, days_old=21) for n in range(6, 9))
    before = await world.snapshot()
    await world.undo((await world.maintenance_run()).run_id)

    held = await world.maintenance_run()

    assert sum(held.counts.values()) == 0
    assert await world.snapshot() == before
    world.clock.turn(timedelta(days=1, minutes=1))
    assert (await world.maintenance_run()).counts["retention"] == 8


async def test_a_run_can_be_undone_while_maintenance_is_paused(world: MaintenanceFixture) -> None:
    await world.store(memory(n) for n in range(1, 6))
    before = await world.snapshot()
    maintenance_run = await world.maintenance_run()
    world.ledger.companies.pause(COMPANY)

    await world.undo(maintenance_run.run_id)

    assert await world.snapshot() == before


async def test_a_run_whose_journal_has_expired_cannot_be_undone_and_says_so(world: MaintenanceFixture) -> None:
    await world.store(memory(n) for n in range(1, 6))
    maintenance_run = await world.maintenance_run()
    world.ledger.journal.expire(COMPANY, before=world.clock())
    planned = world.plan_run(undo_of=maintenance_run.run_id)

    outcome = await world.to_the_end(planned.run_id)

    assert isinstance(outcome, Dead)
    assert outcome.reason == "undo_of: names a run whose journal has expired; it can no longer be undone"
    assert world.run(planned.run_id).state is WorkState.FAILED


async def test_the_last_run_of_an_agent_outlives_its_entries_and_cannot_be_undone(world: MaintenanceFixture) -> None:
    await world.store(memory(n) for n in range(1, 6))
    maintenance_run = await world.maintenance_run()
    assert any(maintenance_run.counts.values())
    world.clock.turn(timedelta(days=4_000))
    # Its entries stay until the archive has dropped what they removed.
    in_a_year = world.clock() + timedelta(days=365)
    while entries := world.ledger.archive.expired(COMPANY, returned_before=in_a_year, before=in_a_year):
        world.ledger.archive.drop(COMPANY, entries, returned_before=in_a_year, before=in_a_year)
    expire_company(world.ledger, COMPANY, Policy(), now=world.clock())
    assert world.run(maintenance_run.run_id).counts == maintenance_run.counts
    assert world.ledger.journal.next_seq(maintenance_run.run_id) == 0

    outcome = await world.to_the_end(world.plan_run(undo_of=maintenance_run.run_id).run_id)

    assert isinstance(outcome, Dead)
    assert outcome.reason == "undo_of: names a run whose journal has expired; it can no longer be undone"


async def test_a_run_that_did_nothing_is_undone_by_nothing(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])

    undo = await world.undo((await world.maintenance_run()).run_id)

    assert undo.counts == {"restored": 0, "removed": 0, "skipped": 0}


async def test_another_agents_run_cannot_be_undone(world: MaintenanceFixture) -> None:
    await world.store(memory(n) for n in range(1, 6))
    maintenance_run = await world.maintenance_run()
    planned = present(
        world.ledger.runs.create(
            NewRun(
                company=COMPANY, agent_id="bob", kind="undo", planned_at=world.clock(), undo_of=maintenance_run.run_id
            )
        )
    )

    outcome = await world.service().run(planned.run_id)

    assert isinstance(outcome, Dead)
    assert "names no run of this agent" in outcome.reason


async def test_the_next_run_finishes_what_a_failed_one_left_open_and_then_it_can_be_undone(
    world: MaintenanceFixture,
) -> None:
    await world.store(memory(n) for n in range(1, 6))
    before = await world.snapshot()
    planned = world.plan_run()
    real, broken = world.backend.delete_where, True

    async def delete_where(where: object) -> int:
        if broken:
            raise RuntimeError("the disk is full")
        return await real(where)  # type: ignore[arg-type]  # handed on as it came

    world.backend.delete_where = delete_where  # type: ignore[method-assign]  # one broken call
    with pytest.raises(RuntimeError):
        await world.service().run(planned.run_id)
    world.clock.turn(RetryPolicy().first_delay)
    failed = present(world.ledger.runs.claim(planned.company, planned.run_id, lease=timedelta(minutes=1)))
    assert failed.token is not None
    world.ledger.runs.finish(COMPANY, planned.run_id, failed.token, state=WorkState.FAILED, counts={}, reason="gave up")
    broken = False

    await world.undo(planned.run_id)

    assert await world.snapshot() == before
    await world.check_balance()
