"""Messages on a real broker: written the short way, they are those that Celery writes, and cost few round trips."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu.connection import Connection
from support.present import present
from support.valkey_servers import BrokerAddress, valkey_server

from memcore import AsyncMemoryClient, JobState, MemoryClient, ids
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import CHUNK_JOBS, Publisher
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryQueueFullError
from memcore.jobs import MAX_STORE_ITEMS, EvolvePayload, MaintenancePayload, Queue, StorePayload
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from workers import transport

#: Everything that JSON, base64 or a careless template could break.
ODD = 'a "quoted" \\ back\u2028slash,\x01 naïve café 日本 \U0001f9e0 memtend<job> memtend<body>'

JOB = OutgoingJob(
    job_id='job "1"', queue=str(Queue.STORE), payload=json.dumps({"text": ODD}), summary='2 "memories"', owner="ab/cd"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with valkey_server(Path(tmp_path_factory.mktemp("valkey"))) as running:
        yield running


@pytest.fixture
def broker(server: BrokerAddress) -> BrokerAddress:
    with server.client() as client:
        client.flushall()
    return server


@pytest.fixture(params=["stock", "ours"])
def app(request: pytest.FixtureRequest, broker: BrokerAddress) -> Iterator[Celery]:
    transport.register()
    url = broker.url if request.param == "stock" else transport.reliable_url(broker.url)
    made = Celery(broker=url, set_as_current=False)
    yield made
    made.close()


def messages(broker: BrokerAddress, queue: str) -> list[dict[str, Any]]:
    with broker.client() as client:
        return [json.loads(text) for text in client.lrange(queue, 0, -1)]


def commands(broker: BrokerAddress) -> int:
    with broker.client() as client:
        return int(client.info("commandstats").get("cmdstat_lpush", {"calls": 0})["calls"])


def request(text: str) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text)


@pytest.mark.parametrize("track", [True, False])
def test_a_message_is_the_one_that_celery_would_have_written(
    app: Celery, broker: BrokerAddress, *, track: bool
) -> None:
    Publisher(app).publish(StorePayload.task, [JOB], track=track)
    app.send_task(
        StorePayload.task, args=(JOB.payload,), task_id=JOB.job_id, queue=JOB.queue,
        argsrepr=JOB.summary, kwargsrepr="", ignore_result=not track,
    )  # fmt: skip
    theirs, ours = messages(broker, JOB.queue)
    assert ours["headers"].pop("owner") == JOB.owner
    assert abs(float(ours["headers"].pop("sent_at")) - time.time()) < 60
    assert theirs["properties"].pop("delivery_tag") != ours["properties"].pop("delivery_tag")
    # where an answer would be sent to, for result backends that send one; ours keeps outcomes in a store
    assert theirs["properties"].pop("reply_to")
    assert ours["properties"].pop("reply_to") == ""
    # said a second time, beside the headers that are read
    assert (theirs["properties"].pop("argsrepr"), theirs["properties"].pop("kwargsrepr")) == (JOB.summary, "")
    assert ours == theirs
    args, _, _ = json.loads(base64.b64decode(ours["body"]))
    assert args == [JOB.payload]


def test_the_age_of_a_queue_is_that_of_its_oldest_message_sorted_or_not(app: Celery, broker: BrokerAddress) -> None:
    for sent_at in (100.0, 200.5, 300.0):
        Publisher(app, seconds=partial(float, sent_at)).publish(StorePayload.task, [JOB], track=True)
    with Connection(transport.reliable_url(broker.url)) as worker:
        channel: Any = worker.default_channel
        assert channel.oldest_sent(JOB.queue) == 100.0
        assert channel.basic_get(JOB.queue) is not None
        with broker.client() as client:
            assert client.llen(JOB.queue) == 0
        assert channel.oldest_sent(JOB.queue) == 200.5
        channel.basic_get(JOB.queue)
        channel.basic_get(JOB.queue)
        assert channel.oldest_sent(JOB.queue) is None
        # As beat and older clients send it.
        with broker.client() as client:
            client.lpush(JOB.queue, '{"headers": {"task": "x"}}')
        assert channel.oldest_sent(JOB.queue) is None


def test_waiting_counts_what_workers_have_sorted_too(app: Celery, broker: BrokerAddress) -> None:
    publisher = Publisher(app)
    publisher.publish(StorePayload.task, [JOB] * 3, track=True)
    with Connection(transport.reliable_url(broker.url)) as worker:
        message = present(worker.default_channel.basic_get(JOB.queue))
        assert message.headers["owner"] == "ab/cd"
        with broker.client() as client:
            assert client.llen(JOB.queue) == 0
        assert publisher.waiting(JOB.queue) == 2


def test_jobs_travel_in_few_commands_in_their_order_to_their_queues(app: Celery, broker: BrokerAddress) -> None:
    outgoing_jobs = [
        OutgoingJob(job_id=f"job-{n}", queue="even" if n % 2 == 0 else "odd", payload="{}", summary="s")
        for n in range(2 * CHUNK_JOBS)
    ]
    before = commands(broker)
    Publisher(app).publish(MaintenancePayload.task, outgoing_jobs, track=True)
    assert commands(broker) - before == 4
    for queue, first in (("even", 0), ("odd", 1)):
        found = messages(broker, queue)
        assert [each["headers"]["id"] for each in reversed(found)] == [f"job-{n}" for n in range(first, 2_000, 2)]
        assert {each["properties"]["delivery_info"]["routing_key"] for each in found} == {queue}
        assert len({each["properties"]["delivery_tag"] for each in found}) == CHUNK_JOBS


def test_a_broker_that_comes_back_is_found_again_by_the_next_send(app: Celery, broker: BrokerAddress) -> None:
    publisher = Publisher(app)
    publisher.publish(StorePayload.task, [JOB], track=True)
    broker.restart()
    publisher.publish(StorePayload.task, [JOB], track=True)
    assert len(messages(broker, JOB.queue)) == 2


def test_a_channel_that_was_closed_beneath_its_producer_is_opened_again(app: Celery, broker: BrokerAddress) -> None:
    publisher = Publisher(app)
    publisher.publish(StorePayload.task, [JOB], track=False)
    for step in (
        lambda: publisher.publish(StorePayload.task, [JOB], track=False),
        lambda: publisher.waiting(JOB.queue),
    ):
        with app.producer_pool.acquire(block=True) as producer:
            producer.channel.close()
        step()
    assert len(messages(broker, JOB.queue)) == 2


def test_an_absent_broker_is_a_typed_error_of_measuring_too(app: Celery, broker: BrokerAddress) -> None:
    publisher = Publisher(app)
    publisher.publish(StorePayload.task, [JOB], track=True)
    broker.kill()
    try:
        with pytest.raises(MemoryConnectionError, match="is it running"):
            publisher.publish(StorePayload.task, [JOB], track=True)
        with pytest.raises(MemoryConnectionError, match=r"how full memory\.store is"):
            publisher.waiting(JOB.queue)
    finally:
        broker.start()


def test_a_refused_password_is_told_from_an_absent_broker(broker: BrokerAddress) -> None:
    url = broker.url.replace(broker.password, "wrong-secret")
    with MemoryClient(url, result_url=url, max_waiting=9) as limited, MemoryClient(url) as client:
        for call in (
            lambda: client.maintain_now("ada"),
            lambda: limited.maintain_now("ada"),
            lambda: limited.status("x"),
        ):
            with pytest.raises(MemoryConnectionError, match="refuses the user or the password in its") as refused:
                call()
            assert "wrong-secret" not in str(refused.value)


def test_a_broker_without_variadic_pushes_gets_celerys_own_messages() -> None:
    with Celery(broker="memory://", set_as_current=False) as app:
        publisher = Publisher(app)
        publisher.publish(StorePayload.task, [JOB, JOB], track=True)
        assert publisher.waiting(JOB.queue) == 2
        assert publisher.waiting("never made") == 0
        with app.connection_for_read() as connection:
            message = present(connection.default_channel.basic_get(JOB.queue))
            assert message.headers["id"] == JOB.job_id
            assert json.loads(message.body)[0] == [JOB.payload]


def test_many_memories_of_one_agent_are_one_round_trip(broker: BrokerAddress) -> None:
    before = commands(broker)
    with MemoryClient(broker.url) as client:
        receipt = client.store_many("ada", [request(str(n)) for n in range(5 * MAX_STORE_ITEMS)])
    assert len(receipt.job_ids) == 5
    assert commands(broker) - before == 1


def test_a_full_queue_is_refused_by_name_and_holds_no_more_than_it_may(broker: BrokerAddress) -> None:
    with MemoryClient(broker.url, max_waiting=3) as client:
        sent = [client.store("ada", request(str(n))) for n in range(3)]
        with pytest.raises(MemoryQueueFullError, match=r"^memory\.store\.\d: has no room for 1 more; the limit is 3"):
            client.store("ada", request("one more"))
        (queue,) = [str(each) for each in Queue if messages(broker, str(each))]
        assert len(messages(broker, queue)) == len(sent) == 3
        with pytest.raises(MemoryQueueFullError, match=r"^memory\.store\.bulk: has no room for 4 more"):
            client.store_many("ada", [request(str(n)) for n in range(4 * MAX_STORE_ITEMS)])
        assert messages(broker, str(Queue.STORE_BULK)) == []


async def test_who_blocks_goes_on_when_a_worker_takes_jobs(broker: BrokerAddress) -> None:
    async with AsyncMemoryClient(broker.url, max_waiting=2, when_full="block", block_seconds=60) as client:
        with broker.client() as redis:
            redis.lpush(str(Queue.STORE_BULK), "in", "the way")
        sending = client.store_many("ada", [request(str(n)) for n in range(2 * MAX_STORE_ITEMS)])

        async def take() -> None:
            with broker.client() as redis:
                redis.delete(str(Queue.STORE_BULK))

        receipt, _ = await asyncio.gather(sending, take())
    found = {each["headers"]["id"] for each in messages(broker, str(Queue.STORE_BULK))}
    assert found == set(receipt.job_ids)


async def test_the_asynchronous_client_does_what_the_other_does(broker: BrokerAddress) -> None:
    async with AsyncMemoryClient(broker.url, result_url=broker.url, company="acme") as client:
        receipt = await client.store("ada", request("x"))
        run = await client.maintain_now("ada")
        undo = await client.undo("ada", "run-1")
        restore = await client.restore("ada", "m1")
        cycle = await client.evolve_now()
        assert (await client.status(run.job_id)).state is JobState.PENDING
        with pytest.raises(MemoryInputError, match=r"^agent_id: "):
            await client.store(" ", request("x"))
        with pytest.raises(TimeoutError, match="1 of 1 jobs"):
            async for _ in client.wait([run.job_id], timeout_seconds=0):
                pass
    (queue,) = [str(each) for each in Queue if str(each).startswith("memory.store") and messages(broker, str(each))]
    ((args, _, _),) = [json.loads(base64.b64decode(each["body"])) for each in messages(broker, queue)]
    (item,) = StorePayload.model_validate_json(args[0]).items
    assert (item.id,) == receipt.memory_ids
    waiting = messages(broker, str(Queue.MAINTENANCE))
    assert [each["headers"]["id"] for each in waiting] == [restore.job_id, undo.job_id, run.job_id]
    ((text,), _, _) = json.loads(base64.b64decode(waiting[0]["body"]))
    payload = MaintenancePayload.model_validate_json(text)
    assert (payload.kind, payload.version, payload.scope_id) == ("restore", 2, "m1")
    (waiting_cycle,) = messages(broker, str(Queue.SKILLS))
    ((text,), _, _) = json.loads(base64.b64decode(waiting_cycle["body"]))
    asked = EvolvePayload.model_validate_json(text)
    assert (asked.origin, asked.cycle_id, waiting_cycle["headers"]["id"]) == ("manual", cycle.job_id, cycle.job_id)
    assert asked.cycle_id == ids.cycle_id(company="acme", planned_at=asked.planned_at.isoformat())
