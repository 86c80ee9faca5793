import json
from collections.abc import Callable
from datetime import timedelta
from typing import Literal

import pytest
from support.job_contexts import ScriptedContext
from support.memories import NOW
from support.present import present

from memcore.errors import MemoryConnectionError
from memcore.jobs import VERSION, Dead, Deferred, Done, MaintenancePayload, Outcome, Retry, Skipped, Snooze
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from tasks.maintain import maintain
from workers.celery_task import MAX_COUNTDOWN, perform

LEASE = timedelta(seconds=45)


def payload(run_id: str = "run-1", *, company: str = "acme", agent_id: str = "ada") -> str:
    return MaintenancePayload(company=company, agent_id=agent_id, run_id=run_id, planned_at=NOW).model_dump_json()


def test_a_message_without_a_row_makes_the_row_and_carries_it_out(job_context: ScriptedContext) -> None:
    seen: list[str] = []

    def maintenance_run(run_id: str) -> Outcome:
        seen.append(run_id)
        return Done(facts={"live": 3})

    job_context.maintenance_run = maintenance_run
    assert perform(maintain, payload(), job_context) == Done(facts={"live": 3})
    run = present(job_context.ledger.runs.get("acme", "run-1"))
    assert (run.agent_id, run.state, run.planned_at) == ("ada", WorkState.AVAILABLE, NOW)
    perform(maintain, payload(), job_context)
    assert seen == ["run-1", "run-1"]


def test_an_agent_has_one_run_at_a_time(job_context: ScriptedContext) -> None:
    job_context.ledger.runs.create(NewRun(company="acme", agent_id="ada", planned_at=NOW - timedelta(days=1)))
    assert perform(maintain, payload(), job_context) == Skipped(reason="another run of this agent is under way")
    assert job_context.ledger.runs.get("acme", "run-1") is None


@pytest.mark.parametrize(
    "outcome",
    [
        Deferred(reason="paused"),
        Retry(reason="store is away", delay=timedelta(seconds=5)),
        Skipped(reason="another worker holds it"),
    ],
)
def test_while_the_row_waits_or_runs_the_message_is_deferred(job_context: ScriptedContext, outcome: Outcome) -> None:
    job_context.maintenance_run = lambda _run_id: outcome
    deferred_job = perform(maintain, payload(), job_context)
    assert isinstance(deferred_job, Deferred)
    assert deferred_job.reason == getattr(outcome, "reason", None)


def test_a_second_message_reports_what_the_run_did(job_context: ScriptedContext) -> None:
    def maintenance_run(run_id: str) -> Outcome:
        run = present(job_context.ledger.runs.claim("acme", run_id, lease=LEASE))
        job_context.ledger.runs.finish("acme", run_id, present(run.token), state=WorkState.DONE, counts={"removed": 7})
        return Skipped(reason="it is done")

    job_context.maintenance_run = maintenance_run
    assert perform(maintain, payload(), job_context) == Done(facts={"removed": 7})


def test_a_held_run_stays_skipped_with_its_reason(job_context: ScriptedContext) -> None:
    def maintenance_run(run_id: str) -> Outcome:
        run = present(job_context.ledger.runs.claim("acme", run_id, lease=LEASE))
        job_context.ledger.runs.finish(
            "acme", run_id, present(run.token), state=WorkState.HELD, counts={}, reason="too much"
        )
        return Skipped(reason="too much")

    job_context.maintenance_run = maintenance_run
    assert perform(maintain, payload(), job_context) == Skipped(reason="too much")


def test_a_failure_before_there_is_a_row_keeps_the_message(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_company: str, _run_id: str) -> None:
        raise MemoryConnectionError("the ledger is away")

    monkeypatch.setattr(job_context.ledger.runs, "get", away)
    assert isinstance(perform(maintain, payload(), job_context), Retry)


def test_a_newer_message_waits_for_a_newer_worker(job_context: ScriptedContext) -> None:
    newer = json.dumps({**json.loads(payload()), "version": VERSION + 1, "depth": "new"})
    assert isinstance(perform(maintain, newer, job_context), Snooze)
    assert job_context.ledger.runs.get("acme", "run-1") is None


def test_an_undo_of_nothing_is_given_up_in_one_sentence(job_context: ScriptedContext) -> None:
    odd = json.dumps({**json.loads(payload()), "kind": "undo"})
    outcome = perform(maintain, odd, job_context)
    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith("undo_of: ")


@pytest.mark.parametrize("broken", ["", "{}", "[]"])
def test_a_message_that_nobody_can_read_is_given_up(job_context: ScriptedContext, broken: str) -> None:
    assert isinstance(perform(maintain, broken, job_context), Dead)


def end(scope_id: str, run_id: str | None = None, *, agent_id: str = "ada") -> str:
    return MaintenancePayload(
        company="acme",
        agent_id=agent_id,
        run_id=run_id or f"end-{scope_id}",
        kind="end_session",
        origin="manual",
        planned_at=NOW,
        scope_id=scope_id,
    ).model_dump_json()


def restore(memory_id: str, kind: Literal["restore", "remove"] = "restore") -> str:
    return MaintenancePayload(
        company="acme",
        agent_id="ada",
        run_id=f"{kind}-{memory_id}",
        kind=kind,
        origin="manual",
        planned_at=NOW,
        scope_id=memory_id,
    ).model_dump_json()


def done(job_context: ScriptedContext) -> Callable[[str], Outcome]:
    def maintenance_run(run_id: str) -> Outcome:
        run = job_context.ledger.runs.claim("acme", run_id, lease=LEASE)
        if run is None or run.token is None:
            return Skipped(reason="it is done")
        job_context.ledger.runs.finish("acme", run_id, run.token, state=WorkState.DONE, counts={"ended": 2})
        return Done(facts={"ended": 2})

    return maintenance_run


def test_only_a_restore_and_a_removal_ask_for_a_worker_that_knows_them() -> None:
    assert json.loads(payload())["version"] == 1
    assert json.loads(end("s"))["version"] == 1
    assert json.loads(restore("m"))["version"] == 2
    assert json.loads(restore("m", "remove"))["version"] == 3


def test_a_restore_waits_for_the_agents_other_run_instead_of_being_dropped(job_context: ScriptedContext) -> None:
    job_context.ledger.runs.create(NewRun(company="acme", agent_id="ada", planned_at=NOW - timedelta(days=1)))
    assert isinstance(perform(maintain, restore("m"), job_context), Snooze)
    assert job_context.ledger.runs.get("acme", "restore-m") is None


def test_two_restores_asked_for_at_one_moment_are_two_runs(job_context: ScriptedContext) -> None:
    job_context.maintenance_run = done(job_context)
    for memory_id in ("m", "n"):
        assert isinstance(perform(maintain, restore(memory_id), job_context), Done)
        run = present(job_context.ledger.runs.get("acme", f"restore-{memory_id}"))
        assert (run.kind, run.scope_id) == ("restore", memory_id)


def test_an_end_becomes_a_run_that_names_what_ends(job_context: ScriptedContext) -> None:
    job_context.maintenance_run = done(job_context)
    assert perform(maintain, end("s"), job_context) == Done(facts={"ended": 2})
    run = present(job_context.ledger.runs.get("acme", "end-s"))
    assert (run.kind, run.scope_id, run.planned_at) == ("end_session", "s", NOW)
    assert perform(maintain, end("s"), job_context) == Done(facts={"ended": 2}), "a redelivery is the same run"


def test_an_end_waits_for_the_agents_other_run_instead_of_being_dropped(job_context: ScriptedContext) -> None:
    job_context.ledger.runs.create(NewRun(company="acme", agent_id="ada", planned_at=NOW - timedelta(days=1)))
    outcome = perform(maintain, end("s"), job_context)
    assert isinstance(outcome, Snooze)
    assert timedelta(0) < outcome.delay <= MAX_COUNTDOWN
    assert job_context.ledger.runs.get("acme", "end-s") is None
    job_context.maintenance_run = done(job_context)
    bobs = perform(maintain, end("s", agent_id="bob"), job_context)
    assert bobs == Done(facts={"ended": 2}), "another agent does not wait"


def asleep(job_context: ScriptedContext) -> str:
    run = present(
        job_context.ledger.runs.create(NewRun(company="acme", agent_id="ada", planned_at=NOW - timedelta(days=1)))
    )
    claimed = present(job_context.ledger.runs.claim(run.company, run.run_id, lease=LEASE))
    wake_at = job_context.clock() + timedelta(days=1)
    job_context.ledger.runs.wait("acme", run.run_id, present(claimed.token), until=wake_at, reason="over budget")
    return run.run_id


@pytest.mark.parametrize("kind", ["undo", "end_session"])
def test_what_somebody_asks_for_does_not_wait_for_a_run_that_sleeps(job_context: ScriptedContext, kind: str) -> None:
    maintenance_run = asleep(job_context)
    job_context.maintenance_run = done(job_context)
    undo = json.dumps({**json.loads(payload("other")), "kind": "undo", "undo_of": "earlier"})
    assert perform(maintain, undo if kind == "undo" else end("s", "other"), job_context) == Done(facts={"ended": 2})
    run = present(job_context.ledger.runs.get("acme", maintenance_run))
    assert (run.state, run.reason) == (WorkState.SKIPPED, f"preempted by {kind}; the next run goes on")


def test_an_end_whose_moment_is_taken_makes_the_run_give_way_all_the_same(job_context: ScriptedContext) -> None:
    job_context.maintenance_run = done(job_context)
    perform(maintain, end("s"), job_context)
    asleep(job_context)
    assert perform(maintain, end("t"), job_context) == Done(facts={"ended": 2})


def test_a_run_still_waits_for_a_run_that_sleeps(job_context: ScriptedContext) -> None:
    maintenance_run = asleep(job_context)
    assert perform(maintain, payload(), job_context) == Skipped(reason="another run of this agent is under way")
    run = present(job_context.ledger.runs.get("acme", maintenance_run))
    assert run.state is WorkState.WAITING


def test_two_ends_asked_for_at_one_moment_are_two_runs(job_context: ScriptedContext) -> None:
    job_context.maintenance_run = done(job_context)
    for scope_id in ("s", "t", "u"):
        assert perform(maintain, end(scope_id), job_context) == Done(facts={"ended": 2})
    ended = job_context.ledger.runs.ended("acme", "ada", "end_session", ["s", "t", "u"])
    assert sorted(ended) == ["s", "t", "u"]
    assert max(ended.values()) - NOW < timedelta(milliseconds=1)


def test_an_end_without_what_ends_is_given_up(job_context: ScriptedContext) -> None:
    body = json.loads(end("s")) | {"scope_id": None}
    outcome = perform(maintain, json.dumps(body), job_context)
    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith("scope_id: names what ends")
