"""Runs: planned once, held by one worker, taken over when that one dies."""

from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock

from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, Run, RunState, RunStep
from memcore.models.memory import ConsolidationInterval

LEASE = timedelta(seconds=45)


def _create(ledger: Ledger, clock: StoppedClock, *, agent_id: str = "ada") -> Run:
    run = ledger.runs.create(NewRun(company="acme", agent_id=agent_id, planned_at=clock()))
    assert run is not None
    return run


def _claim(ledger: Ledger, run: Run) -> tuple[Run, str]:
    claimed = ledger.runs.claim(run.company, run.run_id, lease=LEASE)
    assert claimed is not None
    assert claimed.token is not None
    return claimed, claimed.token


def test_a_run_is_created_once_per_slot_and_once_per_agent_at_a_time(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    again = NewRun(company="acme", agent_id="ada", planned_at=clock())
    assert ledger.runs.create(again) is None
    later = NewRun(company="acme", agent_id="ada", planned_at=clock() + timedelta(hours=1))
    assert ledger.runs.create(later) is None
    assert ledger.runs.active("acme", "ada") == run
    _, token = _claim(ledger, run)
    assert ledger.runs.create(later) is None
    ledger.runs.finish(run.run_id, token, state=RunState.DONE, counts={})
    assert ledger.runs.active("acme", "ada") is None
    assert ledger.runs.create(again) is None
    assert ledger.runs.create(later) is not None


def test_a_claimed_run_belongs_to_one_worker(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    claimed, token = _claim(ledger, run)
    assert ledger.runs.claim(run.company, run.run_id, lease=LEASE) is None
    assert (claimed.state, claimed.attempt, claimed.started_at) == (RunState.RUNNING, 1, clock())
    assert claimed.lease_until == clock() + LEASE
    clock.advance(timedelta(seconds=10))
    assert ledger.runs.renew(run.run_id, token, lease=LEASE).lease_until == clock() + LEASE
    assert ledger.runs.claim("acme", "no such run", lease=LEASE) is None


def _write_late(ledger: Ledger, run_id: str, token: str, late: str) -> None:
    match late:
        case "renew":
            ledger.runs.renew(run_id, token, lease=LEASE)
        case "advance":
            ledger.runs.advance(run_id, token, step=RunStep.ENFORCEMENT, counts={"a": 1})
        case "finish":
            ledger.runs.finish(run_id, token, state=RunState.DONE, counts={})
        case _:
            ledger.runs.release(run_id, token, reason="paused")


def test_an_expired_lease_is_taken_over_and_the_old_token_can_write_nothing(
    ledger: Ledger, clock: StoppedClock
) -> None:
    run = _create(ledger, clock)
    first, old = _claim(ledger, run)
    clock.advance(LEASE - timedelta(microseconds=1))
    assert ledger.runs.claim(run.company, run.run_id, lease=LEASE) is None
    clock.advance(timedelta(microseconds=1))
    second, new = _claim(ledger, run)
    assert new != old
    assert (second.attempt, second.started_at) == (2, first.started_at)
    for late in ("renew", "advance", "finish", "give_back"):
        with pytest.raises(LeaseLostError, match=run.run_id):
            _write_late(ledger, run.run_id, old, late)
    assert ledger.runs.get(run.run_id) == second


def test_a_worker_that_was_slow_keeps_its_run_when_nobody_took_it(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    clock.advance(LEASE * 2)
    ledger.runs.renew(run.run_id, token, lease=LEASE)
    assert ledger.runs.claim(run.company, run.run_id, lease=LEASE) is None


def test_steps_and_counts_are_saved_and_saving_twice_changes_nothing(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    ledger.runs.advance(run.run_id, token, step=RunStep.CONSOLIDATION, counts={"expired": 3})
    saved = ledger.runs.advance(run.run_id, token, step=RunStep.ENFORCEMENT, counts={"merged": 2})
    assert ledger.runs.advance(run.run_id, token, step=RunStep.ENFORCEMENT, counts={"merged": 2}) == saved
    clock.advance(LEASE)
    taken, token = _claim(ledger, run)
    assert (taken.step, taken.counts) == (RunStep.ENFORCEMENT, {"expired": 3, "merged": 2})
    done = ledger.runs.finish(run.run_id, token, state=RunState.DONE, counts={"enforced": 1})
    assert done.counts == {"expired": 3, "merged": 2, "enforced": 1}
    assert (done.state, done.step, done.token, done.finished_at) == (
        RunState.DONE,
        RunStep.FINISHED,
        None,
        clock(),
    )


def test_a_finished_maintenance_is_noted_on_the_agent(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada", "bob"], interval=ConsolidationInterval.DAILY)
    for agent_id, state in (("ada", RunState.DONE), ("bob", RunState.FAILED)):
        run = _create(ledger, clock, agent_id=agent_id)
        _, token = _claim(ledger, run)
        ledger.runs.finish(run.run_id, token, state=state, counts={}, reason="why")
    assert [agent.last_run_at for agent in ledger.agents.list("acme")] == [clock(), None]


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.RUNNING])
def test_a_run_cannot_end_as_queued_or_running(ledger: Ledger, clock: StoppedClock, state: RunState) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    with pytest.raises(MemoryInputError, match="state"):
        ledger.runs.finish(run.run_id, token, state=state, counts={})


def test_a_run_that_is_given_back_keeps_its_attempt(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    back = ledger.runs.release(run.run_id, token, reason="paused")
    assert (back.state, back.attempt, back.reason, back.token) == (RunState.QUEUED, 0, "paused", None)
    again, _ = _claim(ledger, run)
    assert (again.attempt, again.reason) == (1, None)


def test_a_held_run_waits_for_a_person(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    with pytest.raises(MemoryInputError, match="running"):
        ledger.runs.approve_held(run.run_id)
    held = ledger.runs.finish(run.run_id, token, state=RunState.HELD, counts={"share": 60}, reason="too much")
    assert (held.state, held.reason, held.finished_at, held.step) == (
        RunState.HELD,
        "too much",
        None,
        RunStep.RETENTION,
    )
    assert ledger.runs.claim(run.company, run.run_id, lease=LEASE) is None
    assert ledger.runs.active("acme", "ada") is None
    released = ledger.runs.approve_held(run.run_id)
    assert (released.state, released.allow_large) == (RunState.QUEUED, True)
    assert _claim(ledger, run)[0].allow_large


def test_a_held_run_is_not_released_beside_an_active_one(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    ledger.runs.finish(run.run_id, token, state=RunState.HELD, counts={})
    clock.advance(timedelta(hours=1))
    other = _create(ledger, clock)
    with pytest.raises(MemoryInputError, match="active"):
        ledger.runs.approve_held(run.run_id)
    assert ledger.runs.active("acme", "ada") == other


def test_unknown_runs_are_named(ledger: Ledger) -> None:
    assert ledger.runs.get("nothing") is None
    with pytest.raises(MemoryNotFoundError, match="nothing"):
        ledger.runs.renew("nothing", "token", lease=LEASE)
    with pytest.raises(MemoryNotFoundError, match="nothing"):
        ledger.runs.advance("nothing", "token", step=RunStep.UNDO, counts={})
    with pytest.raises(MemoryNotFoundError, match="nothing"):
        ledger.runs.approve_held("nothing")


def test_the_sweep_finds_lost_dispatchers_and_dead_workers(ledger: Ledger, clock: StoppedClock) -> None:
    lost = _create(ledger, clock, agent_id="lost")
    dead = _create(ledger, clock, agent_id="dead")
    _claim(ledger, dead)
    wait = timedelta(minutes=5)
    assert ledger.runs.stale("acme", queued_for=wait, limit=9) == ()
    clock.advance(LEASE)
    assert [run.run_id for run in ledger.runs.stale("acme", queued_for=wait, limit=9)] == [dead.run_id]
    clock.advance(wait)
    fresh = _create(ledger, clock, agent_id="fresh")
    stale = {run.run_id for run in ledger.runs.stale("acme", queued_for=wait, limit=9)}
    assert stale == {lost.run_id, dead.run_id}
    assert len(ledger.runs.stale("acme", queued_for=wait, limit=1)) == 1
    ledger.runs.mark_dispatched([lost.run_id, dead.run_id])
    assert ledger.runs.stale("acme", queued_for=wait, limit=9) == ()
    _claim(ledger, dead)
    clock.advance(LEASE)
    assert [run.run_id for run in ledger.runs.stale("acme", queued_for=wait, limit=9)] == [dead.run_id]
    clock.advance(wait)
    assert fresh.run_id in {run.run_id for run in ledger.runs.stale("acme", queued_for=wait, limit=9)}
    # Another company's sweep would dispatch to its own workers, which serve nobody else.
    assert ledger.runs.stale("other", queued_for=wait, limit=9) == ()


def test_runs_are_listed_newest_first_and_filtered(ledger: Ledger, clock: StoppedClock) -> None:
    made = []
    for number in range(4):
        clock.advance(timedelta(minutes=1))
        made.append(_create(ledger, clock, agent_id=f"agent-{number}").run_id)
    assert [run.run_id for run in ledger.runs.list("acme")] == made[::-1]
    assert [run.run_id for run in ledger.runs.list("acme", limit=2)] == made[:1:-1]
    assert [run.run_id for run in ledger.runs.list("acme", agent_id="agent-1")] == [made[1]]
    assert ledger.runs.list("acme", state=RunState.DONE) == ()
    assert ledger.runs.list("globex") == ()
    undo = ledger.runs.create(NewRun(company="acme", agent_id="x", kind="undo", undo_of=made[0], planned_at=clock()))
    assert undo is not None
    assert (undo.step, undo.undo_of) == (RunStep.UNDO, made[0])
