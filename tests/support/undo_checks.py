"""Checks an undo against snapshots of the store, without the undo's own code."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memcore.ledger.journal import Journal
from memcore.ledger.runs import Run
from memcore.maintenance.undo import UndoPlan, plan_undo
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture
from support.random_histories import Step, replay_history

Snapshot = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run and the store around it."""

    run: Run
    before: Snapshot
    after: Snapshot


async def run_and_record(world: MaintenanceFixture, steps: Sequence[Step]) -> list[RecordedRun]:
    """Carry out the steps, with a snapshot before and after each run."""
    recorded: list[RecordedRun] = []
    for number, step in enumerate(steps):
        before = await world.snapshot()
        runs = await replay_history(world, [step], first=number)
        after = await world.snapshot()
        recorded.extend(RecordedRun(run=run, before=before, after=after) for run in runs)
    return recorded


async def undo_and_check(world: MaintenanceFixture, recorded_run: RecordedRun) -> None:
    """Undo a run, whatever came after it, and check all that is promised of that; then undo the undo."""
    run = recorded_run.run
    plan = await plan_undo(run.run_id, backend=world.backend, ledger=world.ledger, company=COMPANY)
    before = await world.snapshot()
    moved, overtaken = _moved(world, run)

    undo = await world.undo(run.run_id)

    after = await world.snapshot()
    assert after == _expected(recorded_run, before, moved - overtaken)
    _check_report(world, run, undo, plan)
    again = await world.undo(undo.run_id)
    assert await world.snapshot() == before
    assert again.counts["skipped"] == 0
    third = await world.undo(again.run_id)
    assert third.counts["skipped"] == 0
    assert await world.snapshot() == after
    restored = {each for each in plan.restored if each in after}
    maintenance_run = await world.maintenance_run()
    touched = {each for exchange in world.ledger.lineage.of_run(maintenance_run.run_id) for each in exchange.outgoing}
    assert not restored & touched, "what came back is held from the next run"


def _moved(world: MaintenanceFixture, run: Run) -> tuple[set[str], set[str]]:
    """What a run moved, and what another run has moved after it."""
    moved = {
        memory_id
        for exchange in world.ledger.lineage.of_run(run.run_id)
        for memory_id in (*exchange.incoming, *exchange.outgoing)
    }
    moves = world.ledger.lineage.moves(COMPANY, AGENT, moved)
    overtaken = set[str]()
    for memory_id, its in moves.items():
        places = [place for place, move in enumerate(its) if move.run_id == run.run_id]
        if any(move.run_id != run.run_id for move in its[places[-1] :]):
            overtaken.add(memory_id)
    return moved, overtaken


def _expected(recorded_run: RecordedRun, now: Snapshot, free: set[str]) -> Snapshot:
    expected = dict(now)
    for memory_id in free:
        was, became, found = (each.get(memory_id) for each in (recorded_run.before, recorded_run.after, now))
        if was is not None and became is None and found is None:
            expected[memory_id] = was
        elif was is None and became is not None and found == became:
            del expected[memory_id]
    return expected


def _check_report(world: MaintenanceFixture, run: Run, undo: Run, plan: UndoPlan) -> None:
    exchanges = world.ledger.lineage.of_run(undo.run_id)
    assert sorted(each for exchange in exchanges for each in exchange.incoming) == sorted(plan.restored)
    assert sorted(each for exchange in exchanges for each in exchange.outgoing) == sorted(plan.removed)
    counts = {"restored": len(plan.restored), "removed": len(plan.removed), "skipped": len(plan.skipped)}
    assert undo.counts == counts
    not_restored, not_removed = left_by(world.ledger.journal, undo)
    assert sorted(not_restored + not_removed) == sorted(each.memory_id for each in plan.skipped)
    assert plan.run_id == run.run_id


def left_by(journal: Journal, undo: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids that an undo did not bring back, and those that it did not remove."""
    assert undo.undo_of is not None
    missing_in, missing_out = Counter[str](), Counter[str]()
    for journal_entry in journal.journal_entries(undo.undo_of):
        missing_in.update(journal_entry.outgoing_ids)
        missing_out.update(journal_entry.incoming_ids)
    for journal_entry in journal.journal_entries(undo.run_id):
        missing_in.subtract(journal_entry.incoming_ids)
        missing_out.subtract(journal_entry.outgoing_ids)
    return tuple(sorted(+missing_in)), tuple(sorted(+missing_out))
