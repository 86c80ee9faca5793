"""Fine-tune runs that engines ask for, on a real broker, from both clients."""

import base64
import json
from typing import Any

import pytest
from support.valkey_servers import BrokerAddress

from memcore import AsyncMemoryClient, MemoryClient
from memcore.errors import MemoryInputError
from memcore.jobs import FineTunePayload, Queue
from memcore.models.finetune import FineTunePlan

PLAN = FineTunePlan(source_dir="/srv/docs", epochs=2)


async def test_both_clients_send_one_request_as_one_run(broker: BrokerAddress) -> None:
    with MemoryClient(broker.url, company="acme") as client:
        first = client.finetune(PLAN, request_id="tuesday")
        another = client.finetune({"epochs": 2}, request_id="wednesday")
        unnamed = {client.finetune(PLAN).job_id, client.finetune(PLAN).job_id}
    async with AsyncMemoryClient(broker.url, company="acme") as other:
        second = await other.finetune({"source_dir": "/srv/docs", "epochs": 2}, request_id="tuesday")

    assert first.job_id == second.job_id
    assert len({first.job_id, another.job_id, *unnamed}) == 4
    newest, *_, oldest = broker.waiting(Queue.FINETUNE)
    assert newest["headers"]["task"] == "memory.finetune.stage"
    for message in (oldest, newest):
        assert message["headers"]["id"] == first.job_id
        ((text,), _, _) = json.loads(base64.b64decode(message["body"]))
        payload = FineTunePayload.model_validate_json(text)
        assert (payload.version, payload.company, payload.run_id) == (3, "acme", first.job_id)
        assert FineTunePlan.model_validate(payload.plan) == PLAN


@pytest.mark.parametrize(
    ("plan", "asked", "field"),
    [
        ({"epochs": 0}, None, "epochs"),
        ({"uses_memories": False}, None, "source_dir"),
        ({"base_model": "../model"}, None, "base_model"),
        ({"source_dir": "C:\\docs"}, None, "source_dir"),
        ({"mood": 1}, None, "mood"),
        ({}, " ", "request_id"),
    ],
)
def test_what_breaks_a_limit_is_refused_before_anything_is_sent(
    broker: BrokerAddress, plan: dict[str, Any], asked: str | None, field: str
) -> None:
    with MemoryClient(broker.url) as client, pytest.raises(MemoryInputError, match=f"^{field}: "):
        client.finetune(plan, request_id=asked)
    assert broker.waiting(Queue.FINETUNE) == []
