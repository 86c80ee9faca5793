import errno
import json
import logging
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import MagicMock

import pytest
from celery import Celery
from celery._state import task_join_will_block
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from celery.exceptions import Retry as Requeued
from kombu.exceptions import OperationalError
from support.job_contexts import ScriptedContext, ScriptedContexts
from support.present import present
from support.repository import ROOT

from memcore.client.publisher import SNOOZED
from memcore.errors import MemoryConnectionError
from memcore.jobs import (
    Dead,
    Deferred,
    Done,
    MaintenancePayload,
    Outcome,
    Retry,
    Skipped,
    Snooze,
    StorePayload,
    SweepPayload,
    TickPayload,
    TurnPayload,
)
from memcore.ledger.dead_letters import kept_of
from tasks.job import Job, Limits
from workers.celery_task import (
    MAX_COUNTDOWN,
    SerialGate,
    apply_outcome,
    build_tasks,
    is_redelivered,
    run_guarded,
    run_job,
)

LIMITS = Limits(soft=timedelta(seconds=1), hard=timedelta(seconds=2), attempts=3)
JOB = Job(payload=StorePayload, limits=LIMITS, run=lambda _payload, _context: Done())
TEXT = "a memory that nobody may quote"
PAYLOAD = (ROOT / "tests/fixtures/payloads/store-1.json").read_text()


def a_task(*, retries: int = 0) -> MagicMock:
    task = MagicMock()
    task.request.id = "job-1"
    task.request.retries = retries
    task.request.ignore_result = False
    task.request.in_hand_until = 0.0
    task.request.argsrepr = "2 memories"
    task.request.delivery_info = {"exchange": "", "routing_key": "memory.store.bulk", "redelivered": False}
    return task


def settled(task: MagicMock, outcome: Outcome, job_context: ScriptedContext, *, job: Job = JOB) -> dict[str, Any]:
    return apply_outcome(task, job, outcome, payload=PAYLOAD, job_context=job_context)


def requeue(task: MagicMock) -> dict[str, Any]:
    task.signature_from_request.assert_called_once()
    task.signature_from_request.return_value.apply_async.assert_called_once_with()
    return dict(task.signature_from_request.call_args.kwargs)


def test_what_is_done_or_skipped_becomes_the_result(job_context: ScriptedContext) -> None:
    assert settled(a_task(), Done(facts={"stored": 2}), job_context) == {"outcome": "done", "facts": {"stored": 2}}
    assert settled(a_task(), Skipped(reason="r"), job_context) == {"outcome": "skipped", "reason": "r"}


def test_a_snoozed_job_goes_back_and_burns_no_attempt(job_context: ScriptedContext) -> None:
    task = a_task(retries=2)
    with pytest.raises(Requeued):
        settled(task, Snooze(reason="r", delay=timedelta(seconds=5)), job_context)
    assert requeue(task)["retries"] == 2
    assert requeue(task)["countdown"] == 5


def test_no_job_waits_in_the_broker_longer_than_the_cap(job_context: ScriptedContext) -> None:
    task = a_task()
    with pytest.raises(Requeued):
        settled(task, Snooze(reason="r", delay=timedelta(days=1)), job_context)
    assert requeue(task)["countdown"] == MAX_COUNTDOWN.total_seconds() == 60


def test_a_retry_burns_an_attempt_and_the_last_one_is_kept_as_a_dead_letter(job_context: ScriptedContext) -> None:
    task = a_task(retries=1)
    with pytest.raises(Requeued):
        settled(task, Retry(reason="r", delay=timedelta(seconds=5)), job_context)
    assert requeue(task)["retries"] == 2
    task = a_task(retries=2)
    given_up = settled(task, Retry(reason="r", delay=timedelta(seconds=5)), job_context)
    assert given_up == {"outcome": "dead", "reason": "gave up after 3 attempts: r"}
    task.signature_from_request.assert_not_called()
    letter = present(job_context.ledger.dead_letters.get("job-1"))
    assert (letter.payload, letter.attempts, letter.queue) == (PAYLOAD, 3, "memory.store.bulk")


def test_a_job_that_the_broker_does_not_take_back_is_rejected_and_not_acknowledged(
    job_context: ScriptedContext,
) -> None:
    task = a_task(retries=1)
    task.signature_from_request.return_value.apply_async.side_effect = OperationalError("loading the dataset")
    with pytest.raises(Reject) as rejected:
        settled(task, Retry(reason="r", delay=timedelta(seconds=5)), job_context)
    assert rejected.value.requeue


def test_a_dead_letter_of_a_turn_keeps_nothing_of_what_was_said(
    job_context: ScriptedContext, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(payload=TurnPayload, limits=LIMITS, run=lambda _payload, _context: Done())
    turn = (ROOT / "tests/fixtures/payloads/turn-1.json").read_text()
    apply_outcome(a_task(), job, Dead(reason="r"), payload=turn, job_context=job_context)
    letter = present(job_context.ledger.dead_letters.get("job-1"))
    assert letter.payload == kept_of(TurnPayload, turn)
    assert "Berlin" in turn
    assert "Berlin" not in letter.payload + caplog.text


def test_jobs_that_go_back_in_several_threads_subscribe_to_no_result(job_context: ScriptedContext) -> None:
    snooze, first, second = Snooze(reason="r", delay=timedelta(seconds=5)), a_task(), a_task()
    is_inside, is_alone, denied = threading.Event(), threading.Event(), list[bool]()

    def send_second() -> None:
        is_inside.set()
        is_alone.wait()
        denied.append(task_join_will_block())

    def go_back() -> None:
        with pytest.raises(Requeued):
            settled(second, snooze, job_context)

    def send_first() -> None:
        other.start()
        # With the lock the other one waits outside, however long this one takes.
        is_inside.wait(0.2)
        denied.append(task_join_will_block())

    other = threading.Thread(target=go_back)
    first.signature_from_request.return_value.apply_async.side_effect = send_first
    second.signature_from_request.return_value.apply_async.side_effect = send_second
    with pytest.raises(Requeued):
        settled(first, snooze, job_context)
    is_alone.set()
    other.join()
    assert denied == [True, True]
    assert not task_join_will_block()


def test_a_dead_job_is_kept_whole(job_context: ScriptedContext) -> None:
    assert settled(a_task(), Dead(reason="r"), job_context) == {"outcome": "dead", "reason": "r"}
    assert job_context.ledger.dead_letters.count("acme") == 1


def test_a_job_that_comes_again_by_itself_leaves_no_dead_letter(job_context: ScriptedContext) -> None:
    job = Job(payload=TickPayload, limits=LIMITS, is_repeated=True, run=JOB.run)
    settled(a_task(), Dead(reason="r"), job_context, job=job)
    assert job_context.ledger.dead_letters.count("acme") == 0


def test_a_job_whose_letter_cannot_be_written_stays_on_the_broker(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_letter: object) -> None:
        raise MemoryConnectionError("the ledger is away")

    monkeypatch.setattr(job_context.ledger.dead_letters, "put", away)
    task = a_task()
    with pytest.raises(Requeued):
        settled(task, Dead(reason="r"), job_context)
    requeue(task)


def test_what_goes_back_says_no_more_to_monitoring_than_before(job_context: ScriptedContext) -> None:
    task = a_task()
    with pytest.raises(Requeued):
        settled(task, Retry(reason="r", delay=timedelta(seconds=5)), job_context)
    assert requeue(task)["argsrepr"] == "2 memories"


def test_a_deferred_job_is_acknowledged_without_a_final_result(job_context: ScriptedContext) -> None:
    task = a_task()
    with pytest.raises(Ignore):
        settled(task, Deferred(reason="paused"), job_context)
    (job_id, result, state), _ = task.backend.store_result.call_args
    assert (job_id, result, state) == ("job-1", {"reason": "paused"}, SNOOZED)
    task.signature_from_request.assert_not_called()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionResetError(TEXT), Retry),
        (RuntimeError(TEXT), Retry),
        (ValueError(TEXT), Dead),
        (OverflowError(TEXT), Dead),
        (KeyError(TEXT), Dead),
        (TypeError(TEXT), Dead),
        (AttributeError(TEXT), Dead),
    ],
)
def test_an_error_that_nobody_foresaw_is_tried_again_unless_the_payload_is_to_blame_and_told_without_its_text(
    job_context: ScriptedContext, caplog: pytest.LogCaptureFixture, error: Exception, kind: type[Outcome]
) -> None:
    with caplog.at_level(logging.INFO):
        outcome = run_job(job_that(MagicMock(side_effect=error)), PAYLOAD, job_context)
    assert isinstance(outcome, kind)
    assert isinstance(outcome, Retry | Dead)
    assert type(error).__name__ in outcome.reason
    assert TEXT not in caplog.text + outcome.reason
    assert [record.message for record in caplog.records] == ["job.failed"]


@pytest.mark.parametrize("error", [SoftTimeLimitExceeded, MemoryError, RecursionError])
def test_what_the_process_suffers_costs_an_attempt_and_not_the_job(
    job_context: ScriptedContext, error: type[Exception]
) -> None:
    def run(_payload: object, _context: object) -> Outcome:
        raise error

    outcome = run_job(Job(payload=StorePayload, limits=LIMITS, run=run), PAYLOAD, job_context)
    assert isinstance(outcome, Retry)
    assert error.__name__ in outcome.reason


def returned(*, retries: int = 0) -> MagicMock:
    task = a_task(retries=retries)
    task.request.delivery_info["redelivered"] = True
    return task


def job_that(run: Any) -> Job:
    return Job(payload=StorePayload, limits=LIMITS, run=run)


def test_a_job_that_came_back_is_told_from_a_new_one() -> None:
    assert not is_redelivered(a_task())
    assert is_redelivered(returned())
    bare = a_task()
    bare.request.delivery_info = None
    assert not is_redelivered(bare)


def test_a_job_that_came_back_runs_counted_and_leaves_no_count(job_context: ScriptedContext) -> None:
    counted: list[int] = []

    def run(_payload: object, at_work: ScriptedContext) -> Outcome:
        counted.append(at_work.ledger.attempts.count("job-1"))
        return Done(facts={})

    result = run_guarded(returned(), job_that(run), SerialGate(), payload=PAYLOAD, job_context=job_context)
    assert result["outcome"] == "done"
    assert counted == [1]
    assert job_context.ledger.attempts.count("job-1") == 0


def test_a_job_whose_child_is_ended_at_the_hard_limit_stays_counted(job_context: ScriptedContext) -> None:
    def run(_payload: object, _context: object) -> Outcome:
        # what the signal of the pool becomes in its child
        raise SystemExit

    with pytest.raises(SystemExit):
        run_guarded(returned(), job_that(run), SerialGate(), payload=PAYLOAD, job_context=job_context)
    assert job_context.ledger.attempts.count("job-1") == 1


def test_a_job_that_killed_too_many_workers_is_kept_as_a_dead_letter_and_not_run(job_context: ScriptedContext) -> None:
    for _ in range(LIMITS.deaths - 1):
        job_context.ledger.attempts.begin("job-1")
    gate = SerialGate(yield_time=timedelta(0))
    given_up = run_guarded(returned(), job_that(None), gate, payload=PAYLOAD, job_context=job_context)
    assert given_up == {"outcome": "dead", "reason": "4 workers died while they ran it"}
    letter = present(job_context.ledger.dead_letters.get("job-1"))
    assert letter.payload == PAYLOAD
    # a worker that dies before the message is acknowledged
    again = run_guarded(returned(), job_that(None), gate, payload=PAYLOAD, job_context=job_context)
    assert again["outcome"] == "dead"
    assert job_context.ledger.dead_letters.purge(letter.company, ["job-1"]) == 1
    assert job_context.ledger.attempts.count("job-1") == 0


def test_a_job_that_came_back_and_fails_is_put_back_with_its_count_gone(job_context: ScriptedContext) -> None:
    task = returned(retries=1)

    def run(_payload: object, _context: object) -> Outcome:
        return Retry(reason="r", delay=timedelta(seconds=5))

    with pytest.raises(Requeued):
        run_guarded(task, job_that(run), SerialGate(), payload=PAYLOAD, job_context=job_context)
    assert requeue(task)["retries"] == 2
    assert job_context.ledger.attempts.count("job-1") == 0


def test_a_job_that_cannot_be_counted_does_not_run(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_job_id: str) -> None:
        raise MemoryConnectionError("the ledger is away")

    monkeypatch.setattr(job_context.ledger.attempts, "count", away)
    task = returned(retries=1)
    with pytest.raises(Requeued):
        run_guarded(task, job_that(None), SerialGate(), payload=PAYLOAD, job_context=job_context)
    assert requeue(task)["retries"] == 1


def test_a_count_that_cannot_be_dropped_does_not_hide_what_became_of_the_job(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_job_id: str) -> None:
        raise MemoryConnectionError("the ledger is away")

    monkeypatch.setattr(job_context.ledger.attempts, "end", away)
    result = run_guarded(returned(), JOB, SerialGate(), payload=PAYLOAD, job_context=job_context)
    assert result == {"outcome": "done", "facts": {}}


def deliver_again(app: Celery, job: Job, job_id: str) -> threading.Thread:
    """Run the job in a thread of its own, as a pool does when the broker hands its message out again."""

    def run() -> None:
        task = app.tasks[str(job.name)]
        task.push_request(id=job_id, retries=0, delivery_info={"routing_key": str(job.queue), "redelivered": True})
        task.run("{}")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("is_repeated", [False, True])
def test_an_unknown_companys_job_is_kept_even_where_others_of_its_kind_come_again(
    job_context: ScriptedContext, *, is_repeated: bool
) -> None:
    job = Job(payload=MaintenancePayload, limits=LIMITS, is_repeated=is_repeated, run=JOB.run)
    app = Celery(set_as_current=False)
    current: Any = ScriptedContexts(job_context)
    build_tasks(app, [job], current)
    text = '{"company": "globex", "secret": "a memory"}'
    answer = app.tasks[job.name].apply((text,), task_id="job-1").get()
    assert answer["outcome"] == "dead"
    letter = present(job_context.ledger.dead_letters.get("job-1"))
    assert (letter.company, letter.payload, letter.reason) == ("globex", text, answer["reason"])


def test_suspects_of_two_kinds_run_one_at_a_time_until_their_counts_are_gone(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_run, go_on, counts = threading.Event(), threading.Event(), list[int]()

    def innocent(_payload: object, _context: object) -> Outcome:
        counts.append(job_context.ledger.attempts.count("culprit"))
        return Done()

    jobs = (
        Job(payload=TickPayload, limits=LIMITS, run=JOB.run),
        Job(payload=SweepPayload, limits=LIMITS, run=innocent),
    )
    app = Celery(set_as_current=False)
    current: Any = ScriptedContexts(job_context)
    build_tasks(app, jobs, current)
    for job_id in ("culprit", "innocent"):
        job_context.ledger.attempts.begin(job_id)
    forget = job_context.ledger.attempts.end

    def forget_late(job_id: str) -> None:
        if job_id == "culprit":
            has_run.set()
            assert go_on.wait(20)
        forget(job_id)

    monkeypatch.setattr(job_context.ledger.attempts, "end", forget_late)
    first = deliver_again(app, jobs[0], "culprit")
    assert has_run.wait(20)
    second = deliver_again(app, jobs[1], "innocent")
    second.join(0.2)
    go_on.set()
    first.join()
    second.join()
    # in between a worker that died would have counted for both
    assert counts == [0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_job_that_meets_a_full_disk_waits_for_capacity(job_context: ScriptedContext, code: int) -> None:
    def write(_payload: object, _context: object) -> Outcome:
        raise OSError(code, "full")

    assert isinstance(run_job(replace(JOB, run=write), PAYLOAD, job_context), Snooze)


def test_a_job_that_meets_another_fault_of_the_disk_is_tried_again(job_context: ScriptedContext) -> None:
    def write(_payload: object, _context: object) -> Outcome:
        raise OSError(errno.EIO, "broken")

    assert isinstance(run_job(replace(JOB, run=write), PAYLOAD, job_context), Retry)


@pytest.mark.parametrize("place", [(), ("items", 0), ("items", 0, "request"), ("items", 0, "request", "metadata")])
def test_a_field_of_a_later_release_stops_no_job(
    place: tuple[str | int, ...], job_context: ScriptedContext, caplog: pytest.LogCaptureFixture
) -> None:
    payload = json.loads(PAYLOAD)
    part = payload
    for name in place:
        part = part[name]
    part["of_tomorrow"] = {"mood": TEXT}
    outcome = run_job(JOB, json.dumps(payload), job_context)
    assert isinstance(outcome, Done)
    assert [each.message for each in caplog.records if each.levelno == logging.WARNING] == ["job.fields_unknown"]
    assert TEXT not in caplog.text


@pytest.mark.parametrize("more", [{"version": 99}, {"company": ""}])
def test_a_field_of_a_later_release_hides_no_other_fault(more: dict[str, object], job_context: ScriptedContext) -> None:
    payload = json.dumps({**json.loads(PAYLOAD), "of_tomorrow": 1, **more})
    assert isinstance(run_job(JOB, payload, job_context), Snooze if "version" in more else Dead)
