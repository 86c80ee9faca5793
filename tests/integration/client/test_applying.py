"""Applications of skills on a real broker, from both clients."""

import base64
import json
import logging

import pytest
from support.memories import NOW, StoppedClock
from support.valkey_servers import BrokerAddress

from memcore import AsyncMemoryClient, MemoryClient
from memcore.errors import MemoryInputError
from memcore.jobs import AppliedPayload, Queue
from memcore.telemetry.events import Event

SKILL = "6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e"


async def test_both_clients_send_the_same_application_under_one_id(broker: BrokerAddress) -> None:
    with MemoryClient(broker.url, company="acme", clock=StoppedClock()) as client:
        first = client.applied("ada", SKILL, "success", task_id="t-1")
        with pytest.raises(MemoryInputError, match=r"^skill_id: "):
            client.applied("ada", "no id", "success")
    async with AsyncMemoryClient(broker.url, company="acme", clock=StoppedClock()) as other:
        second = await other.applied("ada", SKILL, "success", task_id="t-1")

    assert first is not None
    assert second is not None
    assert first.application_id == second.application_id
    newest, oldest = broker.waiting(Queue.CONTROL)
    assert [oldest["headers"]["id"], newest["headers"]["id"]] == [first.job_id, second.job_id]
    for message in (oldest, newest):
        assert message["headers"]["task"] == "memory.skills.applied"
        ((text,), _, _) = json.loads(base64.b64decode(message["body"]))
        assert AppliedPayload.model_validate_json(text) == AppliedPayload(
            company="acme",
            agent_id="ada",
            application_id=first.application_id,
            skill_id=SKILL,
            outcome="success",
            applied_at=NOW,
        )


def test_a_full_queue_and_a_broker_that_is_away_fail_no_task(
    broker: BrokerAddress, caplog: pytest.LogCaptureFixture
) -> None:
    with MemoryClient(broker.url, max_waiting=1) as client:
        assert client.applied("ada", SKILL, "success") is not None
        assert client.applied("ada", SKILL, "failure") is None
    with MemoryClient("redis://127.0.0.1:1/0") as lost:
        assert lost.applied("ada", SKILL, "success") is None
    assert len(broker.waiting(Queue.CONTROL)) == 1
    events = [(record.msg, record.levelno) for record in caplog.records]
    assert events == [(Event.MEMORY_SKILLS_APPLIED_LOST, logging.WARNING)] * 2
