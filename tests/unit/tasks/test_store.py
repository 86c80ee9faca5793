import json
from datetime import timedelta

import pytest
from support.job_contexts import ScriptedCrew
from support.store_items import item

from memcore.client.envelopes import pack
from memcore.errors import MemoryConnectionError, MemoryDiskFullError, MemoryInputError, MemoryStoreError
from memcore.ingest import Written
from memcore.jobs.outcomes import Dead, Done, Retry, Skipped, Snooze
from memcore.jobs.payloads import VERSION
from tasks import store
from tasks.job import FULL_DELAY
from workers.celery_task import MAX_COUNTDOWN
from workers.groups import STORE


def payload(*texts: str, company: str = "acme") -> str:
    (parcel,) = pack(company, [item(text) for text in texts])
    return parcel.payload


def test_the_memories_go_to_the_desk_and_the_outcome_counts_them(crew: ScriptedCrew) -> None:
    crew.desk.answer = 1
    assert store.write(payload("a", "b"), crew) == Done(facts={"stored": 1, "buried": 1})
    assert [[each.request.content for each in taken] for taken in crew.desk.taken] == [["a", "b"]]


@pytest.mark.parametrize("error", [MemoryConnectionError("x"), MemoryStoreError("x")])
def test_what_may_pass_is_tried_again(crew: ScriptedCrew, error: Exception) -> None:
    crew.desk.answer = error
    outcome = store.write(payload("a"), crew)
    assert isinstance(outcome, Retry)
    assert outcome.reason == type(error).__name__


def test_a_full_disk_uses_up_no_attempt_however_long_it_lasts(crew: ScriptedCrew) -> None:
    crew.desk.answer = MemoryDiskFullError("the disk is full")
    outcome = store.write(payload("a"), crew)
    assert outcome == Snooze(reason="the disk is full (MemoryDiskFullError)", delay=FULL_DELAY)
    assert FULL_DELAY <= MAX_COUNTDOWN


def test_what_cannot_pass_is_given_up(crew: ScriptedCrew) -> None:
    crew.desk.answer = MemoryInputError("content", "is odd")
    assert store.write(payload("a"), crew) == Dead(reason="content: is odd")


def test_a_desk_that_does_not_answer_costs_an_attempt(crew: ScriptedCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    crew.desk.answer = None
    limits = type(store.STORE.limits)(soft=timedelta(0), hard=timedelta(1), attempts=1)
    monkeypatch.setattr(store, "_LIMITS", limits)
    assert isinstance(store.write(payload("a"), crew), Retry)


@pytest.mark.parametrize(
    ("place", "at"), [("created_at", "0001-01-01T00:00:00+14:00"), ("request.expires_at", "9999-12-31T23:59:59-12:00")]
)
def test_a_date_that_an_older_client_let_pass_is_dead_at_once(crew: ScriptedCrew, place: str, at: str) -> None:
    job = json.loads(payload("a"))
    *parents, name = place.split(".")
    (job["items"][0][parents[0]] if parents else job["items"][0])[name] = at
    limit = "must lie from the year 1000 to the year 9000"
    assert store.write(json.dumps(job), crew) == Dead(reason=f"items.0.{place}: {limit}")
    assert crew.desk.taken == []


def test_a_newer_payload_waits_for_a_newer_worker(crew: ScriptedCrew) -> None:
    newer = json.dumps({"version": VERSION + 1, "company": "acme", "blobs": ["something new"]})
    outcome = store.write(newer, crew)
    assert isinstance(outcome, Snooze)
    assert timedelta(0) < outcome.delay <= MAX_COUNTDOWN
    # a message that waits in a worker's hands must not be taken for a dead worker's
    assert outcome.delay < STORE.visibility
    assert crew.desk.taken == []


@pytest.mark.parametrize(
    "broken", ["", "{}", "[]", '{"version": 1, "company": "acme", "items": []}', '{"items": [{"secret": 1}]}']
)
def test_a_payload_that_nobody_can_read_is_given_up_without_quoting_it(crew: ScriptedCrew, broken: str) -> None:
    outcome = store.write(broken, crew)
    assert isinstance(outcome, Dead)
    assert "acme" not in outcome.reason


def test_another_companys_memories_are_refused(crew: ScriptedCrew) -> None:
    outcome = store.write(payload("a", company="other"), crew)
    assert isinstance(outcome, Dead)
    assert crew.desk.taken == []


def ids(body: str) -> list[str]:
    return [each["id"] for each in json.loads(body)["items"]]


def test_memories_of_agents_that_keep_none_are_skipped_with_the_reason(crew: ScriptedCrew) -> None:
    body = payload("a", "b")
    crew.desk.answer = Written(skipped=frozenset(ids(body)))

    assert store.write(body, crew) == Skipped(reason="level none: no memories are kept for this agent")


def test_of_a_mixed_job_the_skipped_ones_are_counted(crew: ScriptedCrew) -> None:
    body = payload("a", "b", "c")
    first, second, third = ids(body)
    crew.desk.answer = Written(stored=frozenset({first}), buried=frozenset({second}), skipped=frozenset({third}))

    assert store.write(body, crew) == Done(facts={"stored": 1, "buried": 1, "skipped": 1})


def test_a_memory_without_the_id_that_ends_it_is_kept_as_a_dead_letter_that_says_what_to_do(
    crew: ScriptedCrew,
) -> None:
    body = payload("a", "b")
    first, second = ids(body)
    crew.desk.answer = Written(stored=frozenset({first}), refused={second: "session_id"})

    outcome = store.write(body, crew)

    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith(
        "1 of 2 memories: session_id is missing, and memories of an agent of level session"
    )
    assert "agents set --level" in outcome.reason
