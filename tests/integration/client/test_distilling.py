"""Traces on a real broker, from both clients."""

import base64
import json

import pytest
from support.execution_traces import trace
from support.memories import NOW, StoppedClock
from support.valkey_servers import BrokerAddress

from memcore import AsyncMemoryClient, MemoryClient, Scope
from memcore.errors import MemoryInputError
from memcore.jobs import DistillPayload, Queue


async def test_both_clients_send_the_same_trace_under_one_id(broker: BrokerAddress) -> None:
    reported = trace(output="naïve 日本\x01 fails")
    with MemoryClient(broker.url, company="acme", clock=StoppedClock()) as client:
        first = client.distill("ada", reported, scope=Scope(session_id="s"))
        with pytest.raises(MemoryInputError, match=r"^agent_id: "):
            client.distill(" ", reported)
    async with AsyncMemoryClient(broker.url, company="acme", clock=StoppedClock()) as other:
        second = await other.distill("ada", reported, scope=Scope(session_id="s"))

    assert first is not None
    assert second is not None
    assert first.trace_id == second.trace_id
    newest, oldest = broker.waiting(Queue.DISTILL)
    assert [oldest["headers"]["id"], newest["headers"]["id"]] == [first.job_id, second.job_id]
    for message in (oldest, newest):
        assert message["headers"]["task"] == "memory.distill.capture"
        assert "fails" not in message["headers"]["argsrepr"]
        ((text,), _, _) = json.loads(base64.b64decode(message["body"]))
        made = DistillPayload.model_validate_json(text)
        assert (made.trace_id, made.trace, made.sent_at, made.session_id) == (first.trace_id, reported, NOW, "s")


def test_a_full_queue_and_a_broker_that_is_away_fail_no_task(broker: BrokerAddress) -> None:
    with MemoryClient(broker.url, max_waiting=1) as client:
        assert client.distill("ada", trace("t-1")) is not None
        assert client.distill("ada", trace("t-2")) is None
        with broker.client() as direct:
            direct.flushall()
    with MemoryClient("redis://127.0.0.1:1/0") as lost:
        assert lost.distill("ada", trace("t-3")) is None
    assert broker.waiting(Queue.DISTILL) == []
