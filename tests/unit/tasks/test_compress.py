"""The compression job."""

import json

import pytest
from support.experiences import experience
from support.job_contexts import ScriptedContext

from memcore import ids
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.experience import CompressionService
from memcore.jobs import CompressPayload, Dead, Done, Outcome, Retry, Snooze, Step
from tasks.learn import compress
from workers.celery_task import perform


def payload(**changed: object) -> str:
    return json.dumps({**CompressPayload(company="acme", agent_id="ada").model_dump(mode="json"), **changed})


def test_the_agent_of_the_message_is_compressed(job_context: ScriptedContext) -> None:
    asked: list[str] = []

    def answer(agent_id: str) -> Outcome:
        asked.append(agent_id)
        return Done(facts={"compressed": 2})

    job_context.compressing = answer
    assert perform(compress, payload(), job_context) == Done(facts={"compressed": 2})
    assert asked == ["ada"]


def test_the_message_of_an_older_worker_makes_the_row_where_something_is_raw(job_context: ScriptedContext) -> None:
    compressions, key = job_context.ledger.compressions, ids.compression_id(company="acme", agent_id="ada")
    perform(compress, payload(), job_context)
    assert compressions.get("acme", key) is None
    job_context.ledger.experiences.append("acme", experience("e"))
    perform(compress, payload(), job_context)
    assert compressions.item("acme", key).agent_id == "ada"


def test_the_next_slice_is_dispatched(job_context: ScriptedContext) -> None:
    class Slow:
        async def run(self, _agent_id: str) -> Step:
            return Step(outcome=Done(), goes_on=True)

    job_context.services[CompressionService] = Slow()
    requested = job_context.ledger.compressions.request_for("acme", "ada")
    assert perform(compress, payload(), job_context) == Done()
    assert job_context.dispatcher.items == [requested]


@pytest.mark.parametrize("changed", [{"agent_id": " "}])
def test_what_can_never_work_is_dead(job_context: ScriptedContext, changed: dict[str, object]) -> None:
    assert isinstance(perform(compress, payload(**changed), job_context), Dead)


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(compress, payload(version=99), job_context), Snooze)


@pytest.mark.parametrize(
    ("error", "outcome"), [(MemoryConnectionError("gone"), Retry), (MemoryInputError("a", "b"), Dead)]
)
def test_trouble_is_tried_again_or_given_up(
    job_context: ScriptedContext, error: Exception, outcome: type[Outcome]
) -> None:
    def fail(_agent_id: str) -> Outcome:
        raise error

    job_context.compressing = fail
    assert isinstance(perform(compress, payload(), job_context), outcome)
