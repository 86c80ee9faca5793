"""The kill switch, the lease and errors: when a run stops, and how it goes on."""

import builtins
from datetime import timedelta

import pytest
from support.fault_injection import Faults
from support.maintenance_fixture import AGENT, COMPANY, CONDENSE, MaintenanceFixture, MakeMaintenanceFixture, memory

from examples.demo.balance import tally_of
from memcore.config.maintenance import ConsolidationConfig
from memcore.errors import MemoryStoreError
from memcore.jobs import Dead, Deferred, Done, Skipped
from memcore.ledger.agents import AgentSpec
from memcore.ledger.attempt import PAUSE_DELAY, RetryPolicy
from memcore.ledger.work_items import WorkState
from memcore.models.memory import MemoryCategory
from memcore.records import Where


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture(
        ConsolidationConfig(
            strategy=CONDENSE, categories=(MemoryCategory.SEMANTIC, MemoryCategory.SOCIAL), max_removed_fraction=1.0
        )
    )


async def _groups(world: MaintenanceFixture) -> None:
    await world.store(memory(n, category=MemoryCategory.SEMANTIC) for n in range(1, 5))
    await world.store(memory(n, category=MemoryCategory.SOCIAL) for n in range(5, 9))


@pytest.mark.parametrize("switch", ["company", "agent", "policy"])
async def test_each_switch_stops_all_three_steps(world: MaintenanceFixture, switch: str) -> None:
    await _groups(world)
    world.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=AGENT, retention_days=1, max_memories=1))
    before = await world.snapshot()
    if switch == "company":
        world.ledger.companies.pause(COMPANY)
    elif switch == "agent":
        world.ledger.agents.pause(COMPANY, AGENT)
    else:
        world.policy = ConsolidationConfig(enabled=False)
    planned = world.plan_run()

    outcome = await world.to_the_end(planned.run_id)

    assert isinstance(outcome, Deferred)
    assert await world.snapshot() == before
    run = world.run(planned.run_id)
    assert (run.state, run.attempt) == (WorkState.WAITING, 0)


async def test_a_run_that_is_paused_sleeps_and_is_preempted_by_the_undo_of_an_earlier_one(
    world: MaintenanceFixture,
) -> None:
    await _groups(world)
    before = await world.snapshot()
    maintenance_run = await world.maintenance_run()
    world.ledger.companies.pause(COMPANY)
    paused = world.plan_run()
    assert isinstance(await world.to_the_end(paused.run_id), Deferred)
    until = world.run(paused.run_id).dispatch_after
    assert until is not None
    assert timedelta(0) < until - world.clock.at <= PAUSE_DELAY

    await world.undo(maintenance_run.run_id)

    assert await world.snapshot() == before
    assert world.run(paused.run_id).state is WorkState.SKIPPED


async def test_a_run_paused_in_the_middle_can_be_undone_while_all_is_paused(world: MaintenanceFixture) -> None:
    await _groups(world)
    before = await world.snapshot()
    planned = world.plan_run()
    settle = world.ledger.journal.settle

    def settle_then_pause(*args: object, **more: object) -> None:
        settle(*args, **more)  # type: ignore[arg-type]  # handed on as they came
        world.ledger.companies.pause(COMPANY)

    world.ledger.journal.settle = settle_then_pause  # type: ignore[method-assign]  # a person pauses at this moment
    assert isinstance(await world.service().run(planned.run_id), Deferred)
    world.ledger.journal.settle = settle  # type: ignore[method-assign]  # back again
    assert await world.snapshot() != before

    await world.undo(planned.run_id)

    assert await world.snapshot() == before


async def test_a_switch_that_cannot_be_read_stops_maintenance(world: MaintenanceFixture) -> None:
    await _groups(world)
    before = await world.snapshot()
    planned = world.plan_run()

    def unreadable() -> None:
        raise OSError("disk")

    calls = Faults()
    await world.service(ledger=calls.ledger(world.ledger)).plan(AGENT, in_detail=False)
    reads = Faults(1, strike=unreadable)
    outcome = await world.service(ledger=reads.ledger(world.ledger)).run(planned.run_id)

    assert reads.calls[1] == "agents.why_paused"
    assert isinstance(outcome, Deferred)
    assert "cannot be read" in outcome.reason
    assert await world.snapshot() == before


async def test_the_interpreters_own_memory_error_is_not_taken_for_an_unreadable_switch(
    world: MaintenanceFixture,
) -> None:
    await _groups(world)

    def exhausted() -> None:
        raise builtins.MemoryError

    faults = Faults(1, strike=exhausted)
    with pytest.raises(builtins.MemoryError):
        await world.service(ledger=faults.ledger(world.ledger)).run(world.plan_run().run_id)


async def test_a_run_paused_in_the_middle_stops_before_its_next_entry_and_goes_on_later(
    world: MaintenanceFixture,
) -> None:
    await _groups(world)
    planned = world.plan_run()
    watched = Faults()
    service = world.service(ledger=watched.ledger(world.ledger))
    settle = world.ledger.journal.settle

    def settle_then_pause(*args: object, **more: object) -> None:
        settle(*args, **more)  # type: ignore[arg-type]  # handed on as they came
        world.ledger.companies.pause(COMPANY)

    world.ledger.journal.settle = settle_then_pause  # type: ignore[method-assign]  # a person pauses at this moment
    assert isinstance(await service.run(planned.run_id), Deferred)
    world.ledger.journal.settle = settle  # type: ignore[method-assign]  # back again

    assert len(await world.summaries()) == 1
    assert world.run(planned.run_id).state is WorkState.WAITING
    await world.check_balance()

    world.ledger.companies.resume(COMPANY)
    assert isinstance(await world.to_the_end(planned.run_id), Done)
    assert len(await world.summaries()) == 2
    assert world.run(planned.run_id).counts["summaries"] == 2
    await world.check_balance()


async def test_a_run_that_another_worker_holds_is_skipped(world: MaintenanceFixture) -> None:
    await _groups(world)
    planned = world.plan_run()
    faults = Faults(4, strike=lambda: world.service().run(planned.run_id))

    first = await world.service(ledger=faults.ledger(world.ledger)).run(planned.run_id)

    assert isinstance(first, Done)
    assert world.run(planned.run_id).attempt == 1


async def test_a_passing_error_is_retried_after_its_wait_and_uses_up_an_attempt(world: MaintenanceFixture) -> None:
    await _groups(world)
    planned = world.plan_run()

    def full() -> None:
        raise MemoryStoreError("busy")

    calls = Faults()
    await world.service(calls.backend(world.backend)).plan(AGENT, in_detail=False)
    first_claim = Faults(len(calls.calls) + 2, strike=full)
    outcome = await world.service(first_claim.backend(world.backend)).run(planned.run_id)

    assert isinstance(outcome, Deferred)
    failed = world.run(planned.run_id)
    assert failed.state is WorkState.AVAILABLE
    assert not failed.is_preemptible, "it may be half done"
    assert failed.dispatch_after is not None
    wait = failed.dispatch_after - world.clock.at
    assert wait == pytest.approx(RetryPolicy().first_delay, abs=timedelta(seconds=1))
    assert isinstance(await world.to_the_end(planned.run_id), Done)
    assert world.run(planned.run_id).attempt == 2


async def test_one_category_failing_does_not_stop_the_others(world: MaintenanceFixture) -> None:
    await world.store(memory(n, category=category) for n, category in enumerate(MemoryCategory, start=1))
    world.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=AGENT, retention_days=10))
    planned = world.plan_run()
    claim = world.backend.claim

    async def broken(where: Where, token: str) -> int:
        if where.categories == frozenset({MemoryCategory.EPISODIC}):
            raise MemoryStoreError("this shard is ill")
        return await claim(where, token)

    world.backend.claim = broken  # type: ignore[method-assign]  # one category fails
    outcome = await world.service().run(planned.run_id)
    world.backend.claim = claim  # type: ignore[method-assign]  # and recovers

    assert isinstance(outcome, Deferred)
    assert {record.entry.category for record in (await world.live()).values()} == {MemoryCategory.EPISODIC}
    assert isinstance(await world.to_the_end(planned.run_id), Done)
    assert await world.live() == {}
    assert world.run(planned.run_id).counts["retention"] == len(MemoryCategory)


async def test_a_memory_that_the_store_does_not_delete_is_an_error_and_never_counted_as_removed(
    world: MaintenanceFixture,
) -> None:
    await _groups(world)
    planned = world.plan_run()
    real = world.backend.delete_where

    async def lazy(where: Where) -> int:
        return 0 if where.token else await real(where)

    world.backend.delete_where = lazy  # type: ignore[method-assign]  # says it deleted nothing, and is right
    assert isinstance(await world.service().run(planned.run_id), Deferred)
    assert tally_of(world.ledger, COMPANY, AGENT).removed == {}

    world.backend.delete_where = real  # type: ignore[method-assign]  # and recovers
    assert isinstance(await world.to_the_end(planned.run_id), Done)
    await world.check_balance()


async def test_a_summary_that_cannot_be_read_back_costs_no_memory(world: MaintenanceFixture) -> None:
    await _groups(world)
    before = await world.snapshot()
    planned = world.plan_run()

    async def forgetful(records: object) -> None:
        del records

    real = world.backend.store_many
    world.backend.store_many = forgetful  # type: ignore[method-assign]  # takes all and keeps nothing
    assert isinstance(await world.service().run(planned.run_id), Deferred)
    assert await world.snapshot() == before

    world.backend.store_many = real  # type: ignore[method-assign]  # and recovers
    assert isinstance(await world.to_the_end(planned.run_id), Done)


async def test_everything_is_journaled_before_the_first_removal(world: MaintenanceFixture) -> None:
    await _groups(world)
    faults = Faults()

    await world.watched(faults).run(world.plan_run().run_id)

    changes = ("journal.prepare", "backend.store_many", "backend.get_many", "backend.delete_where", "journal.settle")
    order = [call for call in faults.calls if call in changes]
    # The memories that stay are read first, then a summary is looked for that stands already.
    assert order == ["backend.get_many", "backend.get_many", *changes] * 2


async def test_a_run_that_cannot_work_fails_in_one_sentence(world: MaintenanceFixture) -> None:
    await _groups(world)
    planned = world.plan_run(undo_of="no-such-run")

    outcome = await world.service().run(planned.run_id)

    assert outcome == Dead(reason="undo_of: names no run of this agent that is still known (memory.records)")
    assert isinstance(await world.service().run(planned.run_id), Skipped)
