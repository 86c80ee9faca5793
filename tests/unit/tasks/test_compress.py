"""The compression job."""

import json

import pytest
from support.job_contexts import ScriptedContext

from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs import CompressPayload, Dead, Done, Outcome, Retry, Snooze
from tasks.learn import compress


def payload(**changed: object) -> str:
    return json.dumps({**CompressPayload(company="acme", agent_id="ada").model_dump(mode="json"), **changed})


def test_the_agent_of_the_message_is_compressed(job_context: ScriptedContext) -> None:
    asked: list[str] = []

    def answer(agent_id: str) -> Outcome:
        asked.append(agent_id)
        return Done(facts={"compressed": 2})

    job_context.compressing = answer
    assert compress(payload(), job_context) == Done(facts={"compressed": 2})
    assert asked == ["ada"]


@pytest.mark.parametrize("changed", [{"agent_id": " "}, {"extra": 1}])
def test_what_can_never_work_is_dead(job_context: ScriptedContext, changed: dict[str, object]) -> None:
    assert isinstance(compress(payload(**changed), job_context), Dead)


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(compress(payload(version=99), job_context), Snooze)


@pytest.mark.parametrize(
    ("error", "outcome"), [(MemoryConnectionError("gone"), Retry), (MemoryInputError("a", "b"), Dead)]
)
def test_trouble_is_tried_again_or_given_up(
    job_context: ScriptedContext, error: Exception, outcome: type[Outcome]
) -> None:
    def fail(_agent_id: str) -> Outcome:
        raise error

    job_context.compressing = fail
    assert isinstance(compress(payload(), job_context), outcome)
