"""The applied job."""

import json
from datetime import timedelta
from typing import Any

import pytest
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock, make_fact

from memcore.errors import MemoryConnectionError
from memcore.jobs import AppliedPayload, Dead, Done, Retry, Snooze
from tasks.learn import count
from workers.celery_task import perform

LESSON = "6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e"


def _payload(clock: StoppedClock, **changed: Any) -> str:
    fields = AppliedPayload(
        company="acme", agent_id="ada", application_id="one", skill_id=LESSON, outcome="success", applied_at=clock.now
    ).model_dump(mode="json")
    return json.dumps({**fields, **changed})


def test_an_application_is_counted_once_however_often_its_message_comes(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    assert perform(count, _payload(clock), job_context) == Done(facts={"counted": 1, "passed_over": 0})
    # What the task first said counts.
    again = perform(count, _payload(clock, outcome="failure"), job_context)
    assert again == Done(facts={"counted": 0, "passed_over": 1})
    assert perform(count, _payload(clock, application_id="two", outcome="failure"), job_context) == Done(
        facts={"counted": 1, "passed_over": 0}
    )
    counts = job_context.ledger.skills.applications("acme", [LESSON, "another"])[LESSON]
    assert (counts.applications, counts.successes, counts.last_applied_at) == (2, 1, clock.now)


def test_a_skill_that_came_back_under_another_id_is_one_skill(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    log, fact = job_context.ledger.shared_log, make_fact("the lift is out of order")
    first = log.publish("acme", fact).memory_id
    log.retract("acme", fact.entry.agent_id, first)
    again = log.publish("acme", fact).memory_id
    assert again != first
    for number, skill_id in enumerate((first, again)):
        perform(count, _payload(clock, skill_id=skill_id, application_id=f"{number}"), job_context)
    found = job_context.ledger.skills.applications("acme", [first, again])
    assert {skill_id: each.applications for skill_id, each in found.items()} == {first: 2}


def test_the_last_application_is_the_newest_one_and_never_later_than_now(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    for number, days in enumerate((400, -1)):
        at = clock.now + timedelta(days=days)
        perform(count, _payload(clock, application_id=f"{number}", applied_at=at.isoformat()), job_context)
    assert job_context.ledger.skills.applications("acme", [LESSON])[LESSON].last_applied_at == clock.now


@pytest.mark.parametrize("changed", [{"skill_id": "garbage"}, {"outcome": "maybe"}])
def test_what_can_never_work_is_dead(
    job_context: ScriptedContext, clock: StoppedClock, changed: dict[str, Any]
) -> None:
    assert isinstance(perform(count, _payload(clock, **changed), job_context), Dead)
    assert job_context.ledger.skills.applications("acme", [LESSON, "garbage"]) == {}


def test_a_newer_payload_waits(job_context: ScriptedContext, clock: StoppedClock) -> None:
    assert isinstance(perform(count, _payload(clock, version=99), job_context), Snooze)


def test_a_ledger_that_is_away_is_asked_again(
    job_context: ScriptedContext, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: object, **_kwargs: object) -> bool:
        raise MemoryConnectionError("gone")

    monkeypatch.setattr(job_context.ledger.skills, "apply", away)
    assert isinstance(perform(count, _payload(clock), job_context), Retry)
