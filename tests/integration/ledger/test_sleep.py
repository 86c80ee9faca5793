"""Runs that sleep: dispatched when their time has come, and out of the way of what a person asks for."""

from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock

from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, Run, RunKind, RunState

LEASE = timedelta(seconds=45)
DAY = timedelta(days=1)
#: How long the sweep lets a run wait that does not sleep.
WAIT = timedelta(minutes=2)


def _maintenance_run(ledger: Ledger, clock: StoppedClock, *, agent_id: str = "ada") -> Run:
    run = ledger.runs.create(NewRun(company="acme", agent_id=agent_id, planned_at=clock()))
    assert run is not None
    return run


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
    claimed = ledger.runs.claim(run.company, run.run_id, lease=LEASE)
    assert claimed is not None
    assert claimed.token is not None
    return claimed.token


def _sleep(ledger: Ledger, clock: StoppedClock, run: Run, length: timedelta = DAY) -> Run:
    return ledger.runs.release(run.run_id, _claimed(ledger, run), reason="budget", wake_at=clock() + length)


def _stale(ledger: Ledger) -> list[str]:
    return [run.run_id for run in ledger.runs.stale("acme", queued_for=WAIT, limit=9)]


def _of(ledger: Ledger, run: Run) -> Run:
    found = ledger.runs.get(run.run_id)
    assert found is not None
    return found


def test_a_sleeping_run_is_left_alone_until_its_time_and_then_dispatched_for_at_once(
    ledger: Ledger, clock: StoppedClock
) -> None:
    run = _maintenance_run(ledger, clock)
    assert _sleep(ledger, clock, run).wake_at == clock() + DAY
    clock.advance(DAY - timedelta(microseconds=1))
    assert _stale(ledger) == []
    clock.advance(timedelta(microseconds=1))
    assert _stale(ledger) == [run.run_id]
    clock.advance(timedelta(seconds=1))
    ledger.runs.mark_dispatched([run.run_id])
    assert _stale(ledger) == [], "while no worker takes it, a bell for every sweep would pile up messages"
    clock.advance(WAIT)
    assert _stale(ledger) == [run.run_id]


def test_a_run_that_sleeps_less_than_the_sweep_waits_is_not_kept_longer(ledger: Ledger, clock: StoppedClock) -> None:
    run = _maintenance_run(ledger, clock)
    _sleep(ledger, clock, run, timedelta(seconds=5))
    clock.advance(timedelta(seconds=5))
    assert _stale(ledger) == [run.run_id]


def test_a_run_given_back_without_a_time_waits_for_the_sweep_as_before(ledger: Ledger, clock: StoppedClock) -> None:
    run = _maintenance_run(ledger, clock)
    assert ledger.runs.release(run.run_id, _claimed(ledger, run), reason="why").wake_at is None
    assert _stale(ledger) == []
    clock.advance(WAIT)
    assert _stale(ledger) == [run.run_id]


def test_a_claim_ends_the_sleep_and_a_release_starts_without_one(ledger: Ledger, clock: StoppedClock) -> None:
    run = _maintenance_run(ledger, clock)
    _sleep(ledger, clock, run)
    token = _claimed(ledger, run)
    assert _of(ledger, run).wake_at is None
    ledger.runs.finish(run.run_id, token, state=RunState.HELD, counts={})
    assert ledger.runs.approve_held(run.run_id).wake_at is None
    clock.advance(WAIT)
    assert _stale(ledger) == [run.run_id]


def test_whoever_has_what_a_run_waited_for_wakes_it(ledger: Ledger, clock: StoppedClock) -> None:
    run = _maintenance_run(ledger, clock)
    assert ledger.runs.wake(run.run_id) is None, "it waits for a worker, and does not sleep"
    _sleep(ledger, clock, run)
    clock.advance(timedelta(hours=1))
    woken = ledger.runs.wake(run.run_id)
    assert woken is not None
    assert (woken.state, woken.reason) == (RunState.QUEUED, "budget")
    assert _stale(ledger) == [run.run_id], "the sweep rings when the waker's bell is lost"
    assert ledger.runs.wake(run.run_id) is None
    _claimed(ledger, run)
    assert ledger.runs.wake(run.run_id) is None
    assert ledger.runs.wake("no such run") is None


@pytest.mark.parametrize("kind", ["undo", "end_session", "end_project", "end_task"])
def test_a_run_that_waits_gives_way_to_what_somebody_asked_for(
    ledger: Ledger, clock: StoppedClock, kind: RunKind
) -> None:
    maintenance_run, elsewhere = _maintenance_run(ledger, clock), _maintenance_run(ledger, clock, agent_id="bob")
    for run in (maintenance_run, elsewhere):
        _sleep(ledger, clock, run)
    other = ledger.runs.create(_other(clock, kind))
    assert other is not None
    assert ledger.runs.active("acme", "ada") == other
    skipped = _of(ledger, maintenance_run)
    assert (skipped.state, skipped.finished_at, skipped.wake_at) == (RunState.SKIPPED, clock(), None)
    assert skipped.reason == f"preempted by {kind}; the next run goes on"
    assert ledger.runs.claim(maintenance_run.company, maintenance_run.run_id, lease=LEASE) is None
    assert _of(ledger, elsewhere).state is RunState.QUEUED


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
    waiting = ledger.runs.create(_other(clock, kind))
    assert waiting is not None
    _sleep(ledger, clock, waiting)
    clock.advance(timedelta(hours=1))
    assert ledger.runs.create(_other(clock, run_id="second")) is None
    assert _of(ledger, waiting).state is RunState.QUEUED


def test_a_run_is_not_displaced_for_a_run_that_exists_already(ledger: Ledger, clock: StoppedClock) -> None:
    done = ledger.runs.create(_other(clock))
    assert done is not None
    ledger.runs.finish(done.run_id, _claimed(ledger, done), state=RunState.DONE, counts={})
    maintenance_run = _maintenance_run(ledger, clock)
    _sleep(ledger, clock, maintenance_run)
    assert ledger.runs.create(_other(clock)) is None, "the same run"
    assert ledger.runs.create(_other(clock, run_id="another")) is None, "the same slot"
    assert _of(ledger, maintenance_run).state is RunState.QUEUED
