"""What an engine deletes stays deleted, whatever runs and undos do before, meanwhile and after."""

import pytest
from support.fault_injection import Faults
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    uid,
)
from support.undo_checks import left_by

from memcore.backends.deletion import Deletion
from memcore.config.maintenance import ConsolidationConfig
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryStoreError
from memcore.jobs import Done, Skipped
from memcore.ledger.runs import Run
from memcore.maintenance.provenance import MemoryState, TextLocation, trace_memory
from memcore.maintenance.undo import SkipReason, plan_undo
from memcore.models.memory import MemoryMetadata
from ops.cli.memory.why import drawn

#: One summary of all that is old, whatever it says.
MERGING = ConsolidationConfig(strategy=CONDENSE, max_removed_fraction=1.0, group_max_entries=3)


async def delete(world: MaintenanceFixture, memory_id: str) -> bool:
    deletion = Deletion(LedgerUrls(ledger="sqlite:///x", journal="sqlite:///x"), company=COMPANY, clock=world.clock)
    deletion._ledger = world.ledger
    return await deletion.delete(world.backend, AGENT, memory_id)


async def merged(world: MaintenanceFixture, *numbers: int) -> tuple[Run, str]:
    """Let a run merge memories, and return its run and the summary."""
    await world.store(memory(number, days_old=60 - number) for number in numbers)
    before = {record.entry.id for record in await world.summaries()}
    run = await world.maintenance_run()
    (summary,) = {record.entry.id for record in await world.summaries()} - before
    return run, summary


async def planned(world: MaintenanceFixture, run: Run) -> dict[str, SkipReason]:
    plan = await plan_undo(run.run_id, backend=world.backend, ledger=world.ledger, company=COMPANY)
    assert plan.restored == plan.removed == ()
    return {each.memory_id: each.reason for each in plan.skipped}


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture(MERGING)


async def test_an_undo_does_not_bring_back_what_a_deleted_summary_stood_for(world: MaintenanceFixture) -> None:
    maintenance_run, summary = await merged(world, 1, 2, 3)
    # What the group is measured by stays beside its summary.
    assert set(await world.live()) == {summary, uid(3)}
    assert await delete(world, summary)

    assert await planned(world, maintenance_run) == {
        summary: SkipReason.DECIDED_SINCE,
        **dict.fromkeys((uid(1), uid(2)), SkipReason.DELETED_SINCE),
    }
    undo = await world.undo(maintenance_run.run_id)
    assert set(await world.live()) == {uid(3)}
    assert undo.counts == {"restored": 0, "removed": 0, "skipped": 3}
    assert left_by(world.ledger.journal, undo)[0] == (uid(1), uid(2))
    await world.check_balance()


async def test_once_the_deletion_is_undone_the_older_run_can_be_undone_whole(world: MaintenanceFixture) -> None:
    await world.store(memory(number, days_old=60 - number) for number in (1, 2, 3))
    before = await world.snapshot()
    maintenance_run = await world.maintenance_run()
    (summary,) = await world.summaries()
    assert await delete(world, summary.entry.id)
    (deletion,) = [run for run in world.ledger.runs.list(COMPANY) if run.kind == "remove"]

    undo = await world.undo(deletion.run_id)
    assert set(await world.live()) == {summary.entry.id, uid(3)}
    # The undo taken back deletes it again, and then the run's undo brings back nothing.
    again = await world.undo(undo.run_id)
    assert set((await planned(world, maintenance_run)).values()) == {SkipReason.DECIDED_SINCE, SkipReason.DELETED_SINCE}
    await world.undo(again.run_id)

    await world.undo(maintenance_run.run_id)
    assert await world.snapshot() == before
    await world.check_balance()


async def test_a_deleted_summary_of_summaries_takes_all_that_it_stood_for(world: MaintenanceFixture) -> None:
    first, lower = await merged(world, 1, 2, 3)
    # Changed by its agent, it is merged as any other memory.
    await world.backend.set_metadata_many(AGENT, [lower], MemoryMetadata(source="agent"))
    _, upper = await merged(world, 4, 5, 6)
    assert lower not in await world.live()
    assert await delete(world, upper)
    left = await world.snapshot()

    assert set((await planned(world, first)).values()) == {SkipReason.DECIDED_SINCE, SkipReason.DELETED_SINCE}
    await world.undo(first.run_id)
    assert await world.snapshot() == left


async def test_the_redo_of_a_run_brings_no_summary_of_a_deleted_original_and_takes_no_other(
    world: MaintenanceFixture,
) -> None:
    maintenance_run, summary = await merged(world, 1, 2, 3)
    undo = await world.undo(maintenance_run.run_id)
    assert await delete(world, uid(1))

    redo = await world.undo(undo.run_id)
    assert set(await world.live()) == {uid(2), uid(3)}
    assert left_by(world.ledger.journal, redo)[0] == (summary,)
    await world.check_balance()


async def test_what_is_deleted_during_a_run_lives_on_in_no_summary(world: MaintenanceFixture) -> None:
    await world.store(memory(number, days_old=60 - number, content=f"secret {number}") for number in (1, 2, 3, 4))
    go_back = world.keep()
    counted = Faults()
    await world.watched(counted).run(world.plan_run().run_id)
    assert len(counted.calls) >= 30, "the scenario has become too small to mean anything"
    outcomes = set[bool]()
    first, last = counted.calls.index("journal.removals"), counted.calls.index("journal.settle")
    for point in range(first, last + 2):
        go_back()
        maintenance_run = world.plan_run()
        answers: list[bool | None] = []

        async def meanwhile(answers: list[bool | None] = answers) -> None:
            try:
                answers.append(await delete(world, uid(2)))
            except MemoryStoreError:
                answers.append(None)

        faults = Faults(point, strike=meanwhile)
        await world.watched(faults).run(maintenance_run.run_id)
        assert isinstance(await world.to_the_end(maintenance_run.run_id), Done | Skipped), counted.calls[point]
        live, (answer,) = await world.live(), answers
        if answer is True:
            assert not [each for each in live.values() if "secret 2" in each.entry.content], counted.calls[point]
        else:
            # The run was first: the memory is in its summary, and the caller was not told that it is deleted.
            (summary,) = await world.summaries()
            assert uid(2) in summary.lineage.summary_of, counted.calls[point]
        assert uid(2) not in live, counted.calls[point]
        await world.check_balance()
        outcomes.add(answer is True)
    assert outcomes == {True, False}


async def test_why_tells_that_an_engine_deleted_it_and_the_journal_keeps_it(world: MaintenanceFixture) -> None:
    await world.store([memory(1, content="the door code is 4711")])
    assert await delete(world, uid(1))
    (run,) = world.ledger.runs.list(COMPANY)

    memory_history = await trace_memory(
        uid(1), backend=world.backend, ledger=world.ledger, company=COMPANY, journal_days=7, with_text=True
    )
    assert (memory_history.memory.state, memory_history.memory.text_in) == (MemoryState.REMOVED, TextLocation.JOURNAL)
    assert memory_history.memory.text == "the door code is 4711"
    (history_event,) = memory_history.memory.chapters
    assert (history_event.reason, history_event.run_kind, history_event.origin) == ("deleted", "remove", "engine")
    label = str(drawn(memory_history).children[1].children[0].label)
    assert f"removed by run {run.run_id} (remove, engine): somebody deleted it" in label
    await world.undo(run.run_id)
    assert set(await world.live()) == {uid(1)}
    await world.check_balance()
