"""Runs: planned once, held by one worker, taken over when that one dies."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from support.fault_injection import Crash, crashing
from support.ledger_records import StoppedClock
from support.present import present

from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.jobs import MaintenancePayload
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditNote, AuditVerdict
from memcore.ledger.runs import NewRun, Run, RunStep
from memcore.ledger.work_items import WorkState
from memcore.models.memory import ConsolidationInterval, MemoryCategory

LEASE = timedelta(seconds=45)


def _create(ledger: Ledger, clock: StoppedClock, *, agent_id: str = "ada") -> Run:
    return present(ledger.runs.create(NewRun(company="acme", agent_id=agent_id, planned_at=clock())))


def _claim(ledger: Ledger, run: Run) -> tuple[Run, str]:
    claimed = present(ledger.runs.claim(run.company, run.run_id, lease=LEASE))
    return claimed, present(claimed.token)


def test_a_run_is_created_once_per_slot_and_once_per_agent_at_a_time(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    again = NewRun(company="acme", agent_id="ada", planned_at=clock())
    assert ledger.runs.create(again) is None
    later = NewRun(company="acme", agent_id="ada", planned_at=clock() + timedelta(hours=1))
    assert ledger.runs.create(later) is None
    assert ledger.runs.active("acme", "ada") == run
    _, token = _claim(ledger, run)
    assert ledger.runs.create(later) is None
    ledger.runs.finish("acme", run.run_id, token, state=WorkState.DONE, counts={})
    assert ledger.runs.active("acme", "ada") is None
    assert ledger.runs.create(again) is None
    assert ledger.runs.create(later) is not None


def test_a_claimed_run_belongs_to_one_worker(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    claimed, token = _claim(ledger, run)
    assert ledger.runs.claim(run.company, run.run_id, lease=LEASE) is None
    assert (claimed.state, claimed.attempt, claimed.started_at) == (WorkState.LEASED, 1, clock())
    assert claimed.lease_until == clock() + LEASE
    clock.advance(timedelta(seconds=10))
    ledger.runs.renew("acme", run.run_id, token, lease=LEASE)
    renewed = present(ledger.runs.get("acme", run.run_id))
    assert renewed.lease_until == clock() + LEASE
    assert ledger.runs.claim("acme", "no such run", lease=LEASE) is None


def _write_late(ledger: Ledger, run_id: str, token: str, late: str) -> None:
    match late:
        case "renew":
            ledger.runs.renew("acme", run_id, token, lease=LEASE)
        case "advance":
            ledger.runs.advance("acme", run_id, token, step=RunStep.ENFORCEMENT, counts={"a": 1})
        case "finish":
            ledger.runs.finish("acme", run_id, token, state=WorkState.DONE, counts={})
        case _:
            ledger.runs.release("acme", run_id, token, reason="paused")


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
    for late in ("renew", "advance", "finish", "release"):
        with pytest.raises(LeaseLostError, match=run.run_id):
            _write_late(ledger, run.run_id, old, late)
    assert ledger.runs.get("acme", run.run_id) == second


def test_a_worker_that_was_slow_keeps_its_run_when_nobody_took_it(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    clock.advance(LEASE * 2)
    ledger.runs.renew("acme", run.run_id, token, lease=LEASE)
    assert ledger.runs.claim(run.company, run.run_id, lease=LEASE) is None


def test_steps_and_counts_are_saved_and_saving_twice_changes_nothing(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    ledger.runs.advance("acme", run.run_id, token, step=RunStep.CONSOLIDATION, counts={"expired": 3})
    saved = ledger.runs.advance("acme", run.run_id, token, step=RunStep.ENFORCEMENT, counts={"merged": 2})
    assert ledger.runs.advance("acme", run.run_id, token, step=RunStep.ENFORCEMENT, counts={"merged": 2}) == saved
    clock.advance(LEASE)
    taken, token = _claim(ledger, run)
    assert (taken.step, taken.counts) == (RunStep.ENFORCEMENT, {"expired": 3, "merged": 2})
    done = ledger.runs.finish("acme", run.run_id, token, state=WorkState.DONE, counts={"enforced": 1})
    assert done.counts == {"expired": 3, "merged": 2, "enforced": 1}
    assert (done.state, done.step, done.token, done.finished_at) == (
        WorkState.DONE,
        RunStep.FINISHED,
        None,
        clock(),
    )


def test_a_finished_maintenance_is_noted_on_the_agent(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada", "bob"], interval=ConsolidationInterval.DAILY)
    for agent_id, state in (("ada", WorkState.DONE), ("bob", WorkState.FAILED)):
        run = _create(ledger, clock, agent_id=agent_id)
        _, token = _claim(ledger, run)
        ledger.runs.finish("acme", run.run_id, token, state=state, counts={}, reason="why")
    assert [agent.last_run_at for agent in ledger.agents.list("acme")] == [clock(), None]


@pytest.mark.parametrize("state", [WorkState.AVAILABLE, WorkState.LEASED])
def test_a_run_cannot_end_as_queued_or_running(ledger: Ledger, clock: StoppedClock, state: WorkState) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    with pytest.raises(MemoryInputError, match="state"):
        ledger.runs.finish("acme", run.run_id, token, state=state, counts={})


def test_a_run_that_waits_keeps_its_attempt_and_one_that_is_released_uses_it_up(
    ledger: Ledger, clock: StoppedClock
) -> None:
    run = _create(ledger, clock)
    ledger.runs.wait("acme", run.run_id, _claim(ledger, run)[1], until=clock() + LEASE, reason="paused", is_unused=True)
    waiting = present(ledger.runs.get("acme", run.run_id))
    assert (waiting.state, waiting.attempt, waiting.reason) == (WorkState.WAITING, 0, "paused")
    assert (waiting.token, waiting.dispatch_after) == (None, clock() + LEASE)
    again, token = _claim(ledger, run)
    assert (again.attempt, again.reason) == (1, None)
    ledger.runs.release("acme", run.run_id, token)
    assert _claim(ledger, run)[0].attempt == 2


def test_a_held_run_waits_for_a_person(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    with pytest.raises(MemoryInputError, match="leased"):
        ledger.runs.approve_held("acme", run.run_id)
    held = ledger.runs.finish("acme", run.run_id, token, state=WorkState.HELD, counts={"share": 60}, reason="too much")
    assert (held.state, held.reason, held.finished_at, held.step) == (
        WorkState.HELD,
        "too much",
        None,
        RunStep.CONSOLIDATION,
    )
    assert ledger.runs.claim(run.company, run.run_id, lease=LEASE) is None
    assert ledger.runs.active("acme", "ada") is None
    released = ledger.runs.approve_held("acme", run.run_id)
    assert (released.state, released.key) == (WorkState.AVAILABLE, run.run_id)
    claimed, token = _claim(ledger, run)
    assert (claimed.allow_large, claimed.step) == (True, RunStep.RETENTION)
    again = ledger.runs.finish("acme", run.run_id, token, state=WorkState.HELD, counts={}, reason="has grown")
    assert not again.allow_large


def _held(ledger: Ledger, clock: StoppedClock, *, agent_id: str = "ada", company: str = "acme") -> Run:
    clock.advance(timedelta(hours=1))
    run = present(ledger.runs.create(NewRun(company=company, agent_id=agent_id, planned_at=clock())))
    _, token = _claim(ledger, run)
    return ledger.runs.finish(company, run.run_id, token, state=WorkState.HELD, counts={}, reason="too much")


def _proposing(ledger: Ledger, clock: StoppedClock) -> Run:
    clock.advance(timedelta(hours=1))
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    ledger.consolidation_groups.note([_group(run, name) for name in "abc"])
    held, step = WorkState.HELD, RunStep.ADOPTION
    return ledger.runs.finish("acme", run.run_id, token, state=held, counts={}, reason="look", step=step)


def _group(run: Run, name: str) -> ConsolidationGroup:
    return ConsolidationGroup(
        company="acme",
        run_id=run.run_id,
        agent_id="ada",
        category=MemoryCategory.EPISODIC,
        strategy="condense",
        state=GroupState.PROPOSED,
        source_ids=(name, "x"),
        body=b"text",
    )


def _states(ledger: Ledger, run: Run) -> list[tuple[str, bytes | None]]:
    return [(str(group.state), group.body) for group in ledger.consolidation_groups.of_run("acme", run.run_id)]


def test_a_person_decides_about_groups_and_the_run_goes_on(ledger: Ledger, clock: StoppedClock) -> None:
    run = _proposing(ledger, clock)
    note = AuditNote(actor="person:Grace", action="runs.adopt", verdict=AuditVerdict.DONE)
    decide = partial(ledger.runs.decide_groups, "acme", run.run_id, GroupState.APPROVED, by="person:Grace", note=note)

    for wrong, places in (("4: no such group", [1, 4]), ("none: no such group", [])):
        with pytest.raises(MemoryInputError, match=wrong):
            decide(places=places)
    with pytest.raises(MemoryInputError, match="the run proposes groups; use `memtend runs adopt`"):
        ledger.runs.approve_held("acme", run.run_id)
    with pytest.raises(MemoryNotFoundError):
        ledger.runs.decide_groups("globex", run.run_id, GroupState.APPROVED, by="Eve")
    assert ledger.audit.page("acme") == ()
    assert _states(ledger, run) == [("proposed", b"text")] * 3

    item = decide(places=[2])

    assert (item.state, item.key) == (WorkState.AVAILABLE, run.run_id)
    assert [state for state, _ in _states(ledger, run)] == ["proposed", "approved", "proposed"]
    assert [line.action for line in ledger.audit.page("acme")] == ["runs.adopt"]
    claimed, _ = _claim(ledger, run)
    assert (claimed.step, claimed.allow_large) == (RunStep.ADOPTION, True)
    with pytest.raises(MemoryInputError, match="the run is leased"):
        decide(places=[1])
    assert _states(ledger, run)[0] == ("proposed", b"text")


def test_a_run_that_proposes_nothing_has_nothing_to_adopt(ledger: Ledger, clock: StoppedClock) -> None:
    run = _held(ledger, clock)
    with pytest.raises(MemoryInputError, match="the run proposes no group; use `memtend runs release`"):
        ledger.runs.decide_groups("acme", run.run_id, GroupState.APPROVED, by="Ada")


def test_a_proposal_is_dismissed_as_a_whole_or_replaced_by_a_newer_run(ledger: Ledger, clock: StoppedClock) -> None:
    first, second = _proposing(ledger, clock), _proposing(ledger, clock)
    assert _states(ledger, first) == []
    ledger.runs.dismiss("acme", second.run_id, by="person:Ada")
    assert _states(ledger, second) == [("dismissed", None)] * 3
    third = _proposing(ledger, clock)
    clock.advance(timedelta(hours=1))
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    ledger.runs.finish("acme", run.run_id, token, state=WorkState.DONE, counts={}, replaces_held=True)
    found = present(ledger.runs.get("acme", third.run_id))
    assert (found.state, _states(ledger, third)) == (WorkState.DISMISSED, [])


@pytest.mark.parametrize("statement", range(6))
def test_a_crash_while_a_person_decides_leaves_all_of_it_or_nothing(
    ledger: Ledger, clock: StoppedClock, statement: int
) -> None:
    run = _proposing(ledger, clock)
    with crashing(ledger) as crashes, crashes.at(statement), suppress(Crash):
        ledger.runs.decide_groups("acme", run.run_id, GroupState.APPROVED, by="Ada")
    found = present(ledger.runs.get("acme", run.run_id))
    left = found.state, {state for state, _ in _states(ledger, run)}
    assert left in ((WorkState.HELD, {"proposed"}), (WorkState.AVAILABLE, {"approved"}))


def test_groups_are_not_decided_beside_an_active_run(ledger: Ledger, clock: StoppedClock) -> None:
    run = _proposing(ledger, clock)
    clock.advance(timedelta(hours=1))
    _create(ledger, clock)
    with pytest.raises(MemoryInputError, match="active"):
        ledger.runs.decide_groups("acme", run.run_id, GroupState.APPROVED, by="Ada")
    assert _states(ledger, run) == [("proposed", b"text")] * 3


def test_an_agent_has_one_held_run_the_newest(ledger: Ledger, clock: StoppedClock) -> None:
    others = [_held(ledger, clock, agent_id="bob"), _held(ledger, clock, company="globex")]
    waiting = ledger.runs.create(NewRun(company="acme", agent_id="eve", planned_at=clock()))
    first, second, third = (_held(ledger, clock) for _ in range(3))

    assert waiting is not None
    assert [run.run_id for run in ledger.runs.list("acme", agent_id="ada", state=WorkState.HELD)] == [third.run_id]
    for old, new in ((first, second), (second, third)):
        found = present(ledger.runs.get("acme", old.run_id))
        assert (found.state, found.reason) == (
            WorkState.DISMISSED,
            f"replaced by {new.run_id}, which looked again",
        )
    assert all(ledger.runs.get(each.company, each.run_id) == each for each in (*others, waiting))
    with pytest.raises(MemoryInputError, match="dismissed"):
        ledger.runs.approve_held("acme", first.run_id)


@pytest.mark.parametrize("statement", range(8))
def test_a_crash_while_a_run_becomes_held_leaves_the_old_one_or_the_new_one(
    ledger: Ledger, clock: StoppedClock, statement: int
) -> None:
    old = _held(ledger, clock)
    clock.advance(timedelta(hours=1))
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    with crashing(ledger) as crashes, crashes.at(statement), suppress(Crash):
        ledger.runs.finish("acme", run.run_id, token, state=WorkState.HELD, counts={}, reason="too much")
    (held,) = ledger.runs.list("acme", state=WorkState.HELD)
    first, second = (ledger.runs.item("acme", each.run_id).state for each in (old, run))
    assert (held.run_id, first, second) in {
        (old.run_id, WorkState.HELD, WorkState.LEASED),
        (run.run_id, WorkState.DISMISSED, WorkState.HELD),
    }


def test_a_held_run_is_dismissed_and_the_audit_says_by_whom(ledger: Ledger, clock: StoppedClock) -> None:
    run, note = _held(ledger, clock), AuditNote(actor="person:Grace", action="runs.dismiss", verdict=AuditVerdict.DONE)
    dismissed = ledger.runs.dismiss("acme", run.run_id, by="person:Grace", note=note)
    assert (dismissed.state, dismissed.reason) == (WorkState.DISMISSED, "dismissed by person:Grace")
    assert dismissed.finished_at == clock()
    assert [line.action for line in ledger.audit.page("acme")] == ["runs.dismiss"]
    for decide in (ledger.runs.approve_held, partial(ledger.runs.dismiss, by="Ada")):
        with pytest.raises(MemoryInputError, match="the run is dismissed; only a held run"):
            decide("acme", run.run_id, note=note)
        with pytest.raises(MemoryNotFoundError):
            decide("globex", run.run_id, note=note)
    assert len(ledger.audit.page("acme")) == 1


def test_a_run_that_is_ready_or_leased_is_not_dismissed(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    with pytest.raises(MemoryInputError, match="available"):
        ledger.runs.dismiss("acme", run.run_id, by="Ada")
    _claim(ledger, run)
    with pytest.raises(MemoryInputError, match="leased"):
        ledger.runs.dismiss("acme", run.run_id, by="Ada")


def test_a_held_run_is_not_released_beside_an_active_one(ledger: Ledger, clock: StoppedClock) -> None:
    run = _create(ledger, clock)
    _, token = _claim(ledger, run)
    ledger.runs.finish("acme", run.run_id, token, state=WorkState.HELD, counts={})
    clock.advance(timedelta(hours=1))
    other = _create(ledger, clock)
    with pytest.raises(MemoryInputError, match="active"):
        ledger.runs.approve_held("acme", run.run_id)
    assert ledger.runs.active("acme", "ada") == other


def test_unknown_runs_are_named(ledger: Ledger) -> None:
    assert ledger.runs.get("acme", "nothing") is None
    with pytest.raises(MemoryNotFoundError, match="nothing"):
        ledger.runs.renew("acme", "nothing", "token", lease=LEASE)
    with pytest.raises(MemoryNotFoundError, match="nothing"):
        ledger.runs.advance("acme", "nothing", "token", step=RunStep.UNDO, counts={})
    with pytest.raises(MemoryNotFoundError, match="nothing"):
        ledger.runs.approve_held("acme", "nothing")


def test_the_message_of_a_run_has_what_a_worker_needs_to_make_its_row(ledger: Ledger, clock: StoppedClock) -> None:
    new = NewRun(company="acme", agent_id="ada", kind="restore", origin="manual", planned_at=clock(), scope_id="m")
    assert ledger.runs.create(new) is not None
    message = MaintenancePayload.model_validate_json(ledger.runs.item("acme", new.run_id).payload or "")
    assert NewRun(**message.model_dump(exclude={"version"})) == new
    assert message.version == 2


def test_runs_are_listed_newest_first_and_filtered(ledger: Ledger, clock: StoppedClock) -> None:
    made = []
    for number in range(4):
        clock.advance(timedelta(minutes=1))
        made.append(_create(ledger, clock, agent_id=f"agent-{number}").run_id)
    assert [run.run_id for run in ledger.runs.list("acme")] == made[::-1]
    assert [run.run_id for run in ledger.runs.list("acme", limit=2)] == made[:1:-1]
    assert [run.run_id for run in ledger.runs.list("acme", agent_id="agent-1")] == [made[1]]
    assert ledger.runs.list("acme", state=WorkState.DONE) == ()
    assert ledger.runs.list("globex") == ()
    undo = present(
        ledger.runs.create(NewRun(company="acme", agent_id="x", kind="undo", undo_of=made[0], planned_at=clock()))
    )
    assert (undo.step, undo.undo_of) == (RunStep.UNDO, made[0])
