"""The compression job."""

import json

import pytest
from support.job_contexts import ScriptedCrew

from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs.outcomes import Dead, Done, Outcome, Retry, Snooze
from memcore.jobs.payloads import CompressPayload
from tasks.experience import compress


def payload(**changed: object) -> str:
    return json.dumps({**CompressPayload(company="acme", agent_id="ada").model_dump(mode="json"), **changed})


def test_the_agent_of_the_message_is_compressed(crew: ScriptedCrew) -> None:
    asked: list[str] = []

    def answer(agent_id: str) -> Outcome:
        asked.append(agent_id)
        return Done(facts={"compressed": 2})

    crew.compressing = answer
    assert compress(payload(), crew) == Done(facts={"compressed": 2})
    assert asked == ["ada"]


@pytest.mark.parametrize("changed", [{"agent_id": " "}, {"company": "other"}, {"extra": 1}])
def test_what_can_never_work_is_dead(crew: ScriptedCrew, changed: dict[str, object]) -> None:
    assert isinstance(compress(payload(**changed), crew), Dead)


def test_a_newer_payload_waits(crew: ScriptedCrew) -> None:
    assert isinstance(compress(payload(version=99), crew), Snooze)


@pytest.mark.parametrize(
    ("error", "outcome"), [(MemoryConnectionError("gone"), Retry), (MemoryInputError("a", "b"), Dead)]
)
def test_trouble_is_tried_again_or_given_up(crew: ScriptedCrew, error: Exception, outcome: type[Outcome]) -> None:
    def fail(_agent_id: str) -> Outcome:
        raise error

    crew.compressing = fail
    assert isinstance(compress(payload(), crew), outcome)
