"""The use job and the query job."""

import json
from typing import Any

import pytest
from support.job_contexts import ScriptedContext, keeping_questions
from support.ledger_records import StoppedClock

from memcore.errors import MemoryConnectionError
from memcore.jobs import Dead, Done, QueryPayload, RecordedQuery, Retry, Skipped, Snooze, Use, UsePayload
from tasks.store import count, record_queries
from workers.celery_task import perform


def _payload(clock: StoppedClock, **changed: Any) -> str:
    use = Use(agent_id="ada", memory_id="m", uses=2, last_used_at=clock.now)
    fields = UsePayload(company="acme", batch_id="batch", uses=(use,)).model_dump(mode="json")
    return json.dumps({**fields, **changed})


def test_a_batch_is_counted_once_however_often_its_message_comes(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    assert perform(count, _payload(clock), job_context) == Done(facts={"counted": 1, "passed_over": 0})
    assert perform(count, _payload(clock), job_context) == Done(facts={"counted": 0, "passed_over": 1})
    assert job_context.ledger.uses.of("acme", "ada", ["m"])["m"].uses == 2


@pytest.mark.parametrize("changed", [{"uses": []}, {"batch_id": " "}])
def test_what_can_never_work_is_dead(
    job_context: ScriptedContext, clock: StoppedClock, changed: dict[str, Any]
) -> None:
    assert isinstance(perform(count, _payload(clock, **changed), job_context), Dead)


def test_a_newer_payload_waits(job_context: ScriptedContext, clock: StoppedClock) -> None:
    assert isinstance(perform(count, _payload(clock, version=99), job_context), Snooze)


def test_a_ledger_that_is_away_is_asked_again(
    job_context: ScriptedContext, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: object) -> int:
        raise MemoryConnectionError("gone")

    monkeypatch.setattr(job_context.ledger.uses, "count", away)
    assert isinstance(perform(count, _payload(clock), job_context), Retry)


def test_questions_are_kept_only_while_the_policy_says_so(job_context: ScriptedContext, clock: StoppedClock) -> None:
    query = RecordedQuery(agent_id="ada", question="Who pays?", memory_ids=("m",), asked_at=clock.now)
    text = QueryPayload(company="acme", queries=(query,)).model_dump_json()
    assert isinstance(perform(record_queries, text, job_context), Skipped)
    assert job_context.ledger.recorded_queries.of("acme", "ada") == ()
    job_context.policy = keeping_questions()
    for _ in range(2):
        assert perform(record_queries, text, job_context) == Done(facts={"recorded": 1})
    assert job_context.ledger.recorded_queries.of("acme", "ada") == (query,)
