"""Figures that workers keep, and counts of runs and work: what monitoring reads, company by company."""

from datetime import timedelta
from threading import Thread

import pytest
from support.ledger_records import StoppedClock
from support.present import present

from memcore.jobs import MaintenancePayload, Queue
from memcore.ledger.ledger import Ledger
from memcore.ledger.monitoring.measures import Measure, MeasureName
from memcore.ledger.runs import NewRun, Run, RunStep
from memcore.ledger.work_items import WorkState

MINUTE = timedelta(minutes=1)
STORED, FOUND = MeasureName.MEMORIES_STORED, MeasureName.CANARY_FOUND


def test_a_counter_grows_with_each_writer_and_is_a_companys_own(ledger: Ledger) -> None:
    adders = [Thread(target=ledger.measures.add, args=("acme", STORED, 3)) for _ in range(8)]
    for each in adders:
        each.start()
    for each in adders:
        each.join()
    ledger.measures.add("bolt", STORED, 1)
    assert {each.company: each.value for each in ledger.measures.of(["acme", "bolt"])} == {"acme": 24.0, "bolt": 1.0}
    assert [each.value for each in ledger.measures.of(["bolt"])] == [1.0]


def test_a_figure_is_begun_once_and_noted_often(ledger: Ledger, clock: StoppedClock) -> None:
    first = clock()
    ledger.measures.begin("acme", FOUND, -1.0, at=first)
    ledger.measures.begin("acme", FOUND, -1.0, at=clock.advance(MINUTE))
    assert ledger.measures.of(["acme"]) == (Measure(company="acme", name=FOUND, value=-1.0, at=first),)
    ledger.measures.note("acme", FOUND, 0.25, at=clock())
    assert ledger.measures.of(["acme"]) == (Measure(company="acme", name=FOUND, value=0.25, at=clock()),)


def _run(ledger: Ledger, agent_id: str, state: WorkState, *, company: str = "acme", **counts: int) -> Run:
    made = present(ledger.runs.create(NewRun(company=company, agent_id=agent_id, planned_at=ledger.runs._clock())))
    held = present(ledger.runs.claim(company, made.run_id, lease=MINUTE))
    assert held.token is not None
    return ledger.runs.finish(company, made.run_id, held.token, state=state, counts=counts, step=RunStep.CONSOLIDATION)


def test_runs_are_counted_by_kind_and_state_and_what_they_removed_by_reason(
    ledger: Ledger, clock: StoppedClock
) -> None:
    _run(ledger, "old", WorkState.DONE, consolidated=99)
    clock.advance(timedelta(days=2))
    _run(ledger, "ada", WorkState.DONE, consolidated=9, summaries=2, retention=1)
    _run(ledger, "bob", WorkState.DONE, consolidated=1, summaries=1)
    _run(ledger, "cy", WorkState.HELD, planned=400)
    _run(ledger, "ada", WorkState.DONE, company="bolt", expired=7)
    ledger.runs.count(
        ledger.runs.note_done(
            NewRun(company="acme", agent_id="dee", kind="update", scope_id="m", planned_at=clock())
        ).run_id,
        {"updated": 1},
    )
    figures = ledger.figures.runs("acme", since=clock() - timedelta(days=1))
    assert figures.ended == {("maintenance", "done"): 2, ("maintenance", "held"): 1, ("update", "done"): 1}
    assert {reason: count for reason, count in figures.removed.items() if count} == {
        "consolidated": 10,
        "retention": 1,
        "updated": 1,
    }
    assert figures.summaries == 3
    assert ledger.figures.held(["acme", "bolt"]) == {"acme": 1}


def test_of_leased_work_the_longest_and_the_first_lease_to_end_are_known(ledger: Ledger, clock: StoppedClock) -> None:
    began = clock()
    for agent_id in ("ada", "bob"):
        made = present(ledger.runs.create(NewRun(company="acme", agent_id=agent_id, planned_at=clock())))
        assert ledger.runs.claim("acme", made.run_id, lease=5 * MINUTE) is not None
        clock.advance(MINUTE)
    (leased,) = ledger.figures.leased(["acme"]).values()
    assert ledger.figures.leased(["acme"]).keys() == {("acme", MaintenancePayload.task)}
    assert (leased.count, leased.started_at, leased.lease_until) == (2, began, began + 5 * MINUTE)
    assert ledger.figures.leased(["bolt"]) == {}


def test_the_oldest_due_item_of_a_queue_waits_since_it_was_made_or_due(ledger: Ledger, clock: StoppedClock) -> None:
    assert ledger.figures.oldest_due() == {}
    made = present(ledger.runs.create(NewRun(company="acme", agent_id="ada", planned_at=clock())))
    clock.advance(MINUTE)
    ledger.runs.create(NewRun(company="bolt", agent_id="bob", planned_at=clock()))
    assert ledger.figures.oldest_due() == {Queue.MAINTENANCE: MINUTE}
    assert ledger.figures.oldest_due(without=[MaintenancePayload.task]) == {}
    # One that a worker holds does not wait.
    assert ledger.runs.claim("acme", made.run_id, lease=5 * MINUTE) is not None
    assert ledger.figures.oldest_due() == {Queue.MAINTENANCE: timedelta(0)}


@pytest.mark.parametrize("name", MeasureName)
def test_every_measure_has_a_name_that_fits_a_row(ledger: Ledger, name: MeasureName) -> None:
    ledger.measures.add("acme", name, 1)
    assert [each.name for each in ledger.measures.of(["acme"])] == [name]
