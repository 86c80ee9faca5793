"""A store, a ledger or a broker that is frozen: every call that reads answers in time, and says what is missing."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from support.freezing_proxy import freezing_proxy
from support.frozen_parts import FrozenParts, ask, frozen_parts, reading_api, reading_calls, until_answered
from support.ledger_records import postgres_database
from support.rabbitmq import rabbitmq
from support.store_items import item
from support.store_servers import StoreAddress

from memcore.client.envelopes import store_jobs
from memcore.client.publisher import JobResults
from memcore.config.settings import Settings
from memcore.deadline.limits import DEADLINE_SECONDS
from memcore.errors import MemoryConnectionError
from memcore.jobs import Queue, StorePayload
from workers.broker import read_queue_lengths

pytestmark = pytest.mark.service

#: What the machine may add to a time limit: wide, as other tests run beside this one.
_SLACK = 10.0

#: What asks the broker how far a job is.
STATUS = "GET /v1/operations/{operation_id}"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory, shared_store: StoreAddress, postgres: str) -> Iterator[FrozenParts]:
    path = tmp_path_factory.mktemp("frozen")
    with postgres_database(postgres) as url, frozen_parts(path, store=shared_store, ledger_url=url) as found:
        yield found


@pytest.mark.parametrize("part", ["store", "ledger", "broker"])
async def test_every_call_that_reads_answers_while_a_part_is_frozen(part: str, parts: FrozenParts) -> None:
    async with reading_api(parts) as (api, client, memory_id):
        calls = reading_calls(api, memory_id)
        usual = {name: (await ask(client, name, *call)).status for name, call in calls.items()}
        with parts.proxies[part].frozen():
            found = await asyncio.gather(*(ask(client, name, *call) for name, call in calls.items()))
            ready = await client.get("/ready")
            assert (ready.status_code, ready.json()[part]) == (503, False)
            late = [each for each in found if each.seconds > DEADLINE_SECONDS + _SLACK]
            assert late == []
            for each in found:
                # As ever, or 503 with the kind of the problem: never a defect, never an empty success.
                assert each.status in {usual[each.call], 503}, each
        await until_answered(client, calls[STATUS])


async def test_a_prompt_says_that_memory_is_away_and_the_answer_names_the_store(parts: FrozenParts) -> None:
    async with reading_api(parts) as (api, client, _):
        path, body = "/v1/agents/ada/context", {"text": "payment queue", "token_budget": 500}
        usual = (await client.post(path, json=body)).json()
        assert usual["degraded"] == []
        with parts.proxies["store"].frozen():
            first = await ask(client, "first", "POST", path, body)
            second = await ask(client, "second", "POST", path, body)
            strict = await client.post(path, json={**body, "require_all": True})
            service = await api.context.service(parts.settings.company)
            with pytest.raises(MemoryConnectionError) as searched:
                await service.engine.search("ada", "payment queue")
        for each in (first, second):
            assert each.status == 200
            assert json.loads(each.body)["degraded"] == ["store"]
            assert "does not answer" in json.loads(each.body)["messages"][-1]["content"]
        await until_answered(client)
        # The first caller's time-out opens the breaker for all.
        assert second.seconds < first.seconds / 2
        assert (strict.status_code, strict.json()["part"]) == (503, "store")
        assert searched.value.part == "store"


async def test_many_who_ask_for_a_job_do_not_all_wait_for_a_frozen_broker(parts: FrozenParts) -> None:
    async with reading_api(parts) as (api, client, memory_id):
        how = reading_calls(api, memory_id)[STATUS]
        with parts.proxies["broker"].frozen():
            first, second = await ask(client, "first", *how), await ask(client, "second", *how)
        assert (first.status, second.status) == (503, 503)
        assert json.loads(second.body)["part"] == "broker"
        assert second.seconds < first.seconds / 2
        await until_answered(client, how)


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize("call", ["publish", "waiting", "lengths"])
def test_a_frozen_rabbitmq_is_named_in_time(call: str, is_connected: bool, tmp_path: Path) -> None:
    with rabbitmq() as direct, freezing_proxy((httpx.URL(direct).host, httpx.URL(direct).port or 5672)) as proxy:
        url = str(httpx.URL(direct).copy_with(host="127.0.0.1", port=proxy.port))
        settings = Settings(
            broker_url=url, result_url="redis://127.0.0.1:9", database_url=f"sqlite:///{tmp_path}/ledger.db",
            qdrant_url="http://127.0.0.1:9", home=tmp_path,
        )  # fmt: skip
        client, jobs = JobResults(url, None), list(store_jobs("acme", [item()], queue=Queue.STORE))
        calls: dict[str, Callable[[], object]] = {
            "publish": lambda: client.publish(StorePayload.task, jobs, track=False),
            "waiting": lambda: client.waiting(Queue.STORE),
            "lengths": lambda: read_queue_lengths(settings),
        }
        if is_connected:
            calls[call]()
        with proxy.frozen():
            began = time.monotonic()
            with pytest.raises(MemoryConnectionError) as refused:
                calls[call]()
            assert refused.value.part == "broker"
            assert time.monotonic() - began < DEADLINE_SECONDS + _SLACK
        calls[call]()
        client.close()
