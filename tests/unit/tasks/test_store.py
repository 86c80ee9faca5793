import json
from datetime import timedelta

import pytest
from crews import ScriptedCrew
from items import item

from memcore.client.envelope import pack
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryStoreError
from memcore.jobs.outcomes import Dead, Done, Retry, Snooze
from tasks import store
from workers.groups import STORE
from workers.task import MAX_COUNTDOWN


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


def test_what_cannot_pass_is_given_up(crew: ScriptedCrew) -> None:
    crew.desk.answer = MemoryInputError("content", "is odd")
    assert store.write(payload("a"), crew) == Dead(reason="MemoryInputError")


def test_a_desk_that_does_not_answer_costs_an_attempt(crew: ScriptedCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    crew.desk.answer = None
    limits = type(store.STORE.limits)(soft=timedelta(0), hard=timedelta(1), attempts=1)
    monkeypatch.setattr(store, "_LIMITS", limits)
    assert isinstance(store.write(payload("a"), crew), Retry)


def test_a_newer_payload_waits_for_a_newer_worker(crew: ScriptedCrew) -> None:
    newer = json.dumps({"version": 2, "company": "acme", "blobs": ["something new"]})
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
