import json
from datetime import timedelta

import pytest
from support.job_contexts import ScriptedContext
from support.memories import NOW
from support.store_items import item

from memcore.client.envelopes import store_jobs
from memcore.errors import MemoryConnectionError, MemoryDiskFullError, MemoryInputError, MemoryStoreError
from memcore.ingest import WriteResult
from memcore.jobs import VERSION, Dead, Done, Queue, Retry, Skipped, Snooze
from tasks import store
from tasks.job import Limits
from workers.celery_task import FULL_DELAY, MAX_COUNTDOWN, perform
from workers.groups import STORE


def payload(*texts: str, company: str = "acme") -> str:
    (job,) = store_jobs(company, [item(text) for text in texts], queue=Queue.STORE)
    return job.payload


def test_the_memories_go_to_the_batch_writer_and_the_outcome_counts_them(job_context: ScriptedContext) -> None:
    job_context.batch_writer.answer = 1
    assert perform(store.write, payload("a", "b"), job_context) == Done(facts={"stored": 1, "buried": 1})
    assert [[each.request.content for each in taken] for taken in job_context.batch_writer.taken] == [["a", "b"]]


@pytest.mark.parametrize("error", [MemoryConnectionError("x"), MemoryStoreError("x")])
def test_what_may_pass_is_tried_again(job_context: ScriptedContext, error: Exception) -> None:
    job_context.batch_writer.answer = error
    outcome = perform(store.write, payload("a"), job_context)
    assert isinstance(outcome, Retry)
    assert outcome.reason == type(error).__name__


def test_a_full_disk_uses_up_no_attempt_however_long_it_lasts(job_context: ScriptedContext) -> None:
    job_context.batch_writer.answer = MemoryDiskFullError("the disk is full")
    outcome = perform(store.write, payload("a"), job_context)
    assert outcome == Snooze(reason="the disk is full (MemoryDiskFullError)", delay=FULL_DELAY)
    assert FULL_DELAY <= MAX_COUNTDOWN


def test_what_cannot_pass_is_given_up(job_context: ScriptedContext) -> None:
    job_context.batch_writer.answer = MemoryInputError("content", "is odd")
    assert perform(store.write, payload("a"), job_context) == Dead(reason="content: is odd")


def test_a_batch_writer_that_does_not_answer_costs_an_attempt(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_context.batch_writer.answer = None
    limits = Limits(soft=timedelta(0), hard=timedelta(1), attempts=1)
    monkeypatch.setattr(store, "WRITE_LIMITS", limits)
    assert isinstance(perform(store.write, payload("a"), job_context), Retry)


@pytest.mark.parametrize("ahead", [timedelta(minutes=6), timedelta(days=400)])
def test_a_memory_of_the_future_is_dead_whoever_sent_it(job_context: ScriptedContext, ahead: timedelta) -> None:
    job = json.loads(payload("a", "b"))
    job["items"][1]["created_at"] = (NOW + ahead).isoformat()
    limit = "lies more than 5 minutes ahead of the clock"
    assert perform(store.write, json.dumps(job), job_context) == Dead(reason=f"items.1: created_at: {limit}")
    assert job_context.batch_writer.taken == []


def test_a_memory_of_a_clock_that_differs_a_little_is_taken(job_context: ScriptedContext) -> None:
    job = json.loads(payload("a"))
    job["items"][0]["created_at"] = (NOW + timedelta(minutes=4)).isoformat()
    assert isinstance(perform(store.write, json.dumps(job), job_context), Done)


@pytest.mark.parametrize(
    ("place", "at"), [("created_at", "0001-01-01T00:00:00+14:00"), ("request.expires_at", "9999-12-31T23:59:59-12:00")]
)
def test_a_date_that_an_older_client_let_pass_is_dead_at_once(
    job_context: ScriptedContext, place: str, at: str
) -> None:
    job = json.loads(payload("a"))
    *parents, name = place.split(".")
    (job["items"][0][parents[0]] if parents else job["items"][0])[name] = at
    limit = "must lie from the year 1000 to the year 9000"
    assert perform(store.write, json.dumps(job), job_context) == Dead(reason=f"items.0.{place}: {limit}")
    assert job_context.batch_writer.taken == []


def test_a_newer_payload_waits_for_a_newer_worker(job_context: ScriptedContext) -> None:
    newer = json.dumps({"version": VERSION + 1, "company": "acme", "blobs": ["something new"]})
    outcome = perform(store.write, newer, job_context)
    assert isinstance(outcome, Snooze)
    assert timedelta(0) < outcome.delay <= MAX_COUNTDOWN
    # a message that waits in a worker's hands must not be taken for a dead worker's
    assert outcome.delay < STORE.visibility
    assert job_context.batch_writer.taken == []


@pytest.mark.parametrize(
    "broken", ["", "{}", "[]", '{"version": 1, "company": "acme", "items": []}', '{"items": [{"secret": 1}]}']
)
def test_a_payload_that_nobody_can_read_is_given_up_without_quoting_it(
    job_context: ScriptedContext, broken: str
) -> None:
    outcome = perform(store.write, broken, job_context)
    assert isinstance(outcome, Dead)
    assert "acme" not in outcome.reason


def ids(body: str) -> list[str]:
    return [each["id"] for each in json.loads(body)["items"]]


def test_memories_of_agents_that_keep_none_are_skipped_with_the_reason(job_context: ScriptedContext) -> None:
    body = payload("a", "b")
    job_context.batch_writer.answer = WriteResult(skipped=frozenset(ids(body)))

    assert perform(store.write, body, job_context) == Skipped(reason="level none: no memories are kept for this agent")


def test_of_a_mixed_job_the_skipped_ones_are_counted(job_context: ScriptedContext) -> None:
    body = payload("a", "b", "c")
    first, second, third = ids(body)
    job_context.batch_writer.answer = WriteResult(
        stored=frozenset({first}), tombstoned=frozenset({second}), skipped=frozenset({third})
    )

    assert perform(store.write, body, job_context) == Done(facts={"stored": 1, "buried": 1, "skipped": 1})


def test_a_memory_without_the_id_that_ends_it_is_kept_as_a_dead_letter_that_says_what_to_do(
    job_context: ScriptedContext,
) -> None:
    body = payload("a", "b")
    first, second = ids(body)
    job_context.batch_writer.answer = WriteResult(stored=frozenset({first}), refused={second: "session_id"})

    outcome = perform(store.write, body, job_context)

    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith(
        "1 of 2 memories: session_id is missing, and memories of an agent of level session"
    )
    assert "agents set --level" in outcome.reason
