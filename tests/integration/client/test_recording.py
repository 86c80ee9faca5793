"""Experience on a real broker, from both clients."""

import base64
import json
from typing import Any

import pytest
from support.memories import NOW, StoppedClock
from support.valkey_servers import BrokerAddress

from memcore import AsyncMemoryClient, MemoryClient
from memcore.errors import MemoryInputError
from memcore.jobs import ExperiencePayload, Queue


async def test_both_clients_send_the_same_experience_under_one_id(broker: BrokerAddress) -> None:
    said: dict[str, Any] = {"prompt": "Why did it fail?", "output": "naïve 日本\x01", "reasoning_trace": ["look"]}
    with MemoryClient(broker.url, company="acme", clock=StoppedClock()) as client:
        first = client.record_experience("ada", **said)
        with pytest.raises(MemoryInputError, match=r"^prompt: must not be blank"):
            client.record_experience("ada", prompt=" ", output="x")
    async with AsyncMemoryClient(broker.url, company="acme", clock=StoppedClock()) as other:
        second = await other.record_experience("ada", **said)

    assert first.experience_id == second.experience_id
    newest, oldest = broker.waiting(Queue.DISTILL)
    assert [oldest["headers"]["id"], newest["headers"]["id"]] == [first.job_id, second.job_id]
    for message in (oldest, newest):
        assert message["headers"]["task"] == "memory.experience.record"
        assert "fail" not in message["headers"]["argsrepr"]
        ((text,), _, _) = json.loads(base64.b64decode(message["body"]))
        made = ExperiencePayload.model_validate_json(text).experience
        assert (made.id, made.output, made.created_at) == (first.experience_id, said["output"], NOW)
