"""Removal of one memory on request: journaled, undoable, once, whatever crashes."""

import time
from datetime import timedelta

import pytest
from support.fault_injection import Crash, Faults, crash_points
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid

from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig
from memcore.jobs import Deferred, Done, Skipped
from memcore.ledger.agents import AgentSpec
from memcore.ledger.attempt import LEASE_LENGTH, Lease
from memcore.ledger.runs import Run
from memcore.maintenance.removals import JournaledStore

OFF = ConsolidationConfig(enabled=False, archival=ArchivalConfig(enabled=True))


def asked(world: MaintenanceFixture, number: int) -> Run:
    return world.plan_run(kind="remove", scope_id=uid(number))


async def removed(world: MaintenanceFixture, number: int) -> Run:
    run = asked(world, number)
    assert isinstance(await world.to_the_end(run.run_id), Done)
    return world.run(run.run_id)


async def test_what_is_removed_is_in_the_journal_and_an_undo_brings_it_back(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(OFF)
    await world.store([memory(1, tags=["pinned"], with_vectors=True), memory(2)])
    before = await world.snapshot()

    run = await removed(world, 1)

    assert set(await world.live()) == {uid(2)}
    assert run.counts == {"removed": 1}
    (journal_entry,) = world.ledger.journal.journal_entries(run.run_id)
    assert (journal_entry.reason, journal_entry.outgoing_ids) == ("deleted", frozenset({uid(1)}))
    assert not journal_entry.archived
    assert world.ledger.journal.tombstoned({uid(1): world.clock.at - timedelta(hours=1)}) == {uid(1)}
    await world.check_balance()
    await world.undo(run.run_id)
    assert await world.snapshot() == before
    await world.check_balance()


async def test_what_an_entry_claimed_and_left_is_not_the_next_ones(world: MaintenanceFixture) -> None:
    await world.store([memory(1), memory(2)])
    since = time.monotonic()
    run = world.ledger.runs.claim(COMPANY, world.plan_run().run_id, lease=LEASE_LENGTH)
    assert run is not None
    assert run.token is not None
    lease = Lease(world.ledger.runs, COMPANY, run.run_id, run.token, since=since)
    store = JournaledStore(world.service()._snapshot(AGENT), run, world.ledger.journal, lease)

    async def taken_out(number: int, *, is_allowed: bool) -> int:
        done = await store.exchange(
            incoming=(),
            outgoing_ids=frozenset({uid(number)}),
            may_go=lambda _: is_allowed,
            seq=number,
            reverses="an earlier entry",
            known=frozenset(),
        )
        return done.outgoing

    assert await taken_out(1, is_allowed=False) == 0
    assert await taken_out(2, is_allowed=True) == 1
    assert set(await world.live()) == {uid(1)}


async def test_it_is_done_once_and_what_is_stored_anew_stays(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    run = await removed(world, 1)
    assert isinstance(await world.service().run(run.run_id), Skipped)
    outcome = await world.to_the_end(asked(world, 1).run_id)
    assert outcome == Skipped(reason=f"memory {uid(1)} is not there any more")

    late = asked(world, 1)
    await world.store([memory(1, days_old=-1)])
    assert isinstance(await world.to_the_end(late.run_id), Skipped)
    assert set(await world.live()) == {uid(1)}


async def test_another_agents_memory_is_none_of_it(world: MaintenanceFixture) -> None:
    await world.store([memory(1, agent_id="bob")])
    assert isinstance(await world.to_the_end(asked(world, 1).run_id), Skipped)
    assert set(await world.live("bob")) == {uid(1)}


async def test_a_pause_holds_it_up_and_loses_it_not(world: MaintenanceFixture) -> None:
    world.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=AGENT))
    await world.store([memory(1)])
    run = asked(world, 1)
    world.ledger.companies.pause(COMPANY)
    assert isinstance(await world.service().run(run.run_id), Deferred)
    assert set(await world.live()) == {uid(1)}
    world.ledger.companies.resume(COMPANY)
    assert isinstance(await world.to_the_end(run.run_id), Done)
    assert await world.live() == {}


async def test_a_crash_at_any_call_removes_it_all_the_same(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(OFF)
    await world.store([memory(1), memory(2)])
    go_back = world.keep()
    counted = Faults()
    run = asked(world, 1)
    assert isinstance(await world.watched(counted).run(run.run_id), Done)
    assert len(counted.calls) >= 8, "the scenario has become too small to mean anything"

    for point in crash_points(counted.calls):
        go_back()
        run = asked(world, 1)
        # Before a call, or after the one before it: both leave the same behind.
        with pytest.raises(Crash):
            await world.watched(Faults(point)).run(run.run_id)
        outcome = await world.to_the_end(run.run_id)
        assert isinstance(outcome, Done), (counted.calls[point], outcome)
        assert world.run(run.run_id).counts == {"removed": 1}, counted.calls[point]
        assert set(await world.live()) == {uid(2)}, counted.calls[point]
        await world.check_balance()
