"""Runs that sleep: dispatched when their time has come, and out of the way of what a person asks for."""

from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock
from support.present import present

from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, Run, RunKind
from memcore.ledger.work_items import WorkState

LEASE = timedelta(seconds=45)
DAY = timedelta(days=1)


def _maintenance_run(ledger: Ledger, clock: StoppedClock, *, agent_id: str = "ada") -> Run:
    return present(ledger.runs.create(NewRun(company="acme", agent_id=agent_id, planned_at=clock())))


def _other(clock: StoppedClock, kind: RunKind = "undo", *, run_id: str = "other") -> NewRun:
    is_undo = kind == "undo"
    return NewRun(
        run_id=run_id,
        company="acme",
        agent_id="ada",
        kind=kind,
        planned_at=clock(),
        undo_of="earlier" if is_undo else None,
        scope_id=None if is_undo else "s",
    )


def _claimed(ledger: Ledger, run: Run) -> str:
    claimed = present(ledger.runs.claim(run.company, run.run_id, lease=LEASE))
    return present(claimed.token)


def _sleep(ledger: Ledger, clock: StoppedClock, run: Run, length: timedelta = DAY) -> Run:
    ledger.runs.wait("acme", run.run_id, _claimed(ledger, run), until=clock() + length, reason="budget", is_unused=True)
    return _of(ledger, run)


def _of(ledger: Ledger, run: Run) -> Run:
    return present(ledger.runs.get("acme", run.run_id))


def test_a_waiting_run_is_left_alone_until_its_time_and_then_dispatched_at_once(
    ledger: Ledger, clock: StoppedClock
) -> None:
    run = _maintenance_run(ledger, clock)
    assert _sleep(ledger, clock, run).dispatch_after == clock() + DAY
    clock.advance(DAY - timedelta(microseconds=1))
    assert ledger.work.take_due(limit=9) == ()
    clock.advance(timedelta(microseconds=1))
    assert [item.key for item in ledger.work.take_due(limit=9)] == [run.run_id]


def test_whoever_has_what_a_run_waited_for_wakes_it(ledger: Ledger, clock: StoppedClock) -> None:
    run = _maintenance_run(ledger, clock)
    assert ledger.runs.wake("acme", run.run_id) is None, "it waits for a worker, and does not sleep"
    _sleep(ledger, clock, run)
    clock.advance(timedelta(hours=1))
    woken = present(ledger.runs.wake("acme", run.run_id))
    assert (woken.state, woken.reason) == (WorkState.AVAILABLE, "budget")
    assert [item.key for item in ledger.work.take_due(limit=9)] == [run.run_id], "the waker's own message may be lost"
    assert ledger.runs.wake("acme", run.run_id) is None
    _claimed(ledger, run)
    assert ledger.runs.wake("acme", run.run_id) is None
    assert ledger.runs.wake("acme", "no such run") is None


@pytest.mark.parametrize("kind", ["undo", "end_session", "end_project", "end_task"])
def test_a_run_that_waits_gives_way_to_what_somebody_asked_for(
    ledger: Ledger, clock: StoppedClock, kind: RunKind
) -> None:
    maintenance_run, elsewhere = _maintenance_run(ledger, clock), _maintenance_run(ledger, clock, agent_id="bob")
    for run in (maintenance_run, elsewhere):
        _sleep(ledger, clock, run)
    other = present(ledger.runs.create(_other(clock, kind)))
    assert ledger.runs.active("acme", "ada") == other
    skipped = _of(ledger, maintenance_run)
    assert (skipped.state, skipped.finished_at, skipped.dispatch_after) == (WorkState.SKIPPED, clock(), None)
    assert skipped.reason == f"preempted by {kind}; the next run goes on"
    assert ledger.runs.claim(maintenance_run.company, maintenance_run.run_id, lease=LEASE) is None
    assert _of(ledger, elsewhere).state is WorkState.WAITING


def test_a_run_does_not_give_way_to_a_run(ledger: Ledger, clock: StoppedClock) -> None:
    first = _maintenance_run(ledger, clock)
    _sleep(ledger, clock, first)
    clock.advance(timedelta(hours=1))
    assert ledger.runs.create(NewRun(company="acme", agent_id="ada", planned_at=clock())) is None
    assert ledger.runs.active("acme", "ada") == _of(ledger, first)


def test_a_run_that_waits_for_a_worker_or_has_one_is_never_displaced(ledger: Ledger, clock: StoppedClock) -> None:
    maintenance_run = _maintenance_run(ledger, clock)
    assert ledger.runs.create(_other(clock)) is None
    token = _claimed(ledger, maintenance_run)
    assert ledger.runs.create(_other(clock)) is None
    clock.advance(LEASE)
    assert ledger.runs.create(_other(clock)) is None, "its lease has run out, and it is half done"
    assert _of(ledger, maintenance_run).token == token


@pytest.mark.parametrize("kind", ["undo", "end_session"])
def test_only_runs_give_way(ledger: Ledger, clock: StoppedClock, kind: RunKind) -> None:
    waiting = present(ledger.runs.create(_other(clock, kind)))
    _sleep(ledger, clock, waiting)
    clock.advance(timedelta(hours=1))
    assert ledger.runs.create(_other(clock, run_id="second")) is None
    assert _of(ledger, waiting).state is WorkState.WAITING


def test_a_run_is_not_displaced_for_a_run_that_exists_already(ledger: Ledger, clock: StoppedClock) -> None:
    done = present(ledger.runs.create(_other(clock)))
    ledger.runs.finish("acme", done.run_id, _claimed(ledger, done), state=WorkState.DONE, counts={})
    maintenance_run = _maintenance_run(ledger, clock)
    _sleep(ledger, clock, maintenance_run)
    assert ledger.runs.create(_other(clock)) is None, "the same run"
    assert _of(ledger, maintenance_run).state is WorkState.WAITING
