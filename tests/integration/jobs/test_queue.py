"""The client, a real broker and a worker: what becomes of a job, and what monitoring gets to see of it."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, signals
from celery.contrib.testing.worker import start_worker
from support.job_contexts import ScriptedContext, ScriptedContexts
from support.present import present
from support.running_stack import wait_until
from support.valkey_servers import BrokerAddress, queue_length, valkey_server

from memcore import JobState, MemoryClient
from memcore.client.envelopes import ImportRecord, OutgoingJob
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs import (
    BULK_ABOVE,
    VERSION,
    Deferred,
    MaintenancePayload,
    Queue,
    StorePayload,
    Use,
    job_owner,
    store_queue,
)
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkState
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.retrieval.usage import BufferedUseRecorder
from workers import app as assembling
from workers.app import create_app
from workers.groups import MAINTENANCE_RUN, STORE, WorkerGroup

# Celery's own call; a worker in this process is all that meets it under our filter
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")

#: A word that stands in every memory here, and that only broker and store may hold.
WORD = "xylophonequartz"

REQUEST = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"the {WORD} is in the cellar")

#: Where the memories of "ada" wait.
SHARD = store_queue("ada")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerAddress]:
    with valkey_server(tmp_path / "broker") as address:
        yield address


@pytest.fixture
def settings(tmp_path: Path, sqlite_ledger: LedgerUrls, broker: BrokerAddress) -> Settings:
    return Settings(
        broker_url=broker.url, database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path,
        qdrant_url="http://127.0.0.1:9", flower_url="http://u:p@127.0.0.1:9", company="acme",
    )  # fmt: skip


@pytest.fixture
def job_context(settings: Settings) -> Generator[ScriptedContext]:
    ledger = Ledger.open(settings.ledger_urls)
    yield ScriptedContext(ledger=ledger)
    ledger.close()


@pytest.fixture
def client(settings: Settings) -> Iterator[MemoryClient]:
    with MemoryClient.from_settings(settings) as client:
        yield client


@pytest.fixture
def published() -> Iterator[list[dict[str, Any]]]:
    """The headers of everything that Celery publishes while the test runs: what a worker puts back."""
    seen: list[dict[str, Any]] = []

    def note(headers: dict[str, Any], **_: object) -> None:
        seen.append(dict(headers))

    signals.before_task_publish.connect(note, weak=False)
    yield seen
    signals.before_task_publish.disconnect(note)


@pytest.fixture
def app_of(settings: Settings, job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(assembling, "WorkerContexts", lambda *_, **__: ScriptedContexts(job_context))
    monkeypatch.setattr(assembling, "watch_pool", lambda *_, **__: None)
    monkeypatch.setattr("memcore.backends.factory.create_configured_embedder", lambda *_: None)

    def make(group: WorkerGroup) -> Celery:
        return create_app(settings, group=group)

    return make


@contextmanager
def working(app: Celery, *queues: Queue) -> Iterator[None]:
    for queue in Queue:
        if queue not in queues:
            app.amqp.queues.deselect(str(queue))
    worker: Any = start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=60)
    with worker:
        yield


def newest(broker: BrokerAddress, queue: Queue) -> dict[str, Any]:
    with broker.client() as redis:
        (message,) = redis.lrange(str(queue), 0, -1)
    found: dict[str, Any] = json.loads(message)
    return found


def test_a_job_on_the_broker_shows_a_count_and_no_text(client: MemoryClient, broker: BrokerAddress) -> None:
    receipt = client.store_many("ada", [REQUEST, REQUEST.model_copy(update={"content": "other"})])
    message = newest(broker, SHARD)
    assert message["headers"]["id"] == receipt.job_ids[0]
    assert message["headers"]["argsrepr"] == "2 memories"
    assert WORD not in json.dumps({key: value for key, value in message.items() if key != "body"})


def test_engines_take_their_agents_shard_and_bulk_loads_the_bulk_queue(
    client: MemoryClient, broker: BrokerAddress
) -> None:
    def waiting() -> dict[str, int]:
        with broker.client() as redis:
            return {str(queue): count for queue in Queue if (count := int(redis.llen(str(queue))))}

    def requests(count: int) -> list[MemoryStoreRequest]:
        return [REQUEST.model_copy(update={"content": str(number)}) for number in range(count)]

    client.import_many([])
    client.store_many("ada", [])
    assert waiting() == {}
    client.store(" ada ", REQUEST)
    client.store_many("ada", requests(BULK_ABOVE))
    assert waiting() == {str(SHARD): 2}
    client.store_many("ada", requests(BULK_ABOVE + 1))
    client.import_many([ImportRecord(agent_id="ada", **dict(REQUEST))])
    assert waiting() == {str(SHARD): 2, str(Queue.STORE_BULK): 2}


def test_what_breaks_a_limit_never_reaches_the_broker(client: MemoryClient, broker: BrokerAddress) -> None:
    with pytest.raises(MemoryInputError, match=r"^agent_id: "):
        client.store("a" * 10_000, REQUEST)
    with pytest.raises(MemoryInputError, match=r"^agent_id: "):
        client.maintain_now(" ")
    with broker.client() as redis:
        assert [redis.llen(str(queue)) for queue in Queue] == [0] * len(Queue)


def test_an_absent_broker_is_a_typed_error_and_a_closed_client_opens_again(
    client: MemoryClient, broker: BrokerAddress
) -> None:
    client.store("ada", REQUEST)
    broker.kill()
    with pytest.raises(MemoryConnectionError, match="is it running"):
        client.store("ada", REQUEST)
    client.close()
    broker.start()
    client.store("ada", REQUEST)
    with broker.client() as redis:
        assert redis.llen(str(SHARD)) == 2


def test_a_job_goes_from_pending_to_done(client: MemoryClient, job_context: ScriptedContext, app_of: Any) -> None:
    receipt = client.store("ada", REQUEST)
    (job_id,) = receipt.job_ids
    assert client.status(job_id).state is JobState.PENDING
    with pytest.raises(TimeoutError, match="1 of 1 jobs"):
        next(client.wait([job_id], timeout_seconds=0))
    with working(app_of(STORE), SHARD):
        (status,) = client.wait([job_id], timeout_seconds=600)
    assert (status.state, status.facts) == (JobState.DONE, {"stored": 1, "buried": 0})
    assert [each.id for taken in job_context.batch_writer.taken for each in taken] == list(receipt.memory_ids)


def test_a_store_that_is_away_costs_time_and_not_the_job_nor_its_silence(
    client: MemoryClient, job_context: ScriptedContext, app_of: Any, published: list[dict[str, Any]], monkeypatch: Any
) -> None:
    monkeypatch.setattr("workers.celery_task.IN_HAND", timedelta(0))
    job_context.batch_writer.answer = MemoryConnectionError("away")
    (job_id,) = client.store("ada", REQUEST).job_ids
    with working(app_of(STORE), SHARD):
        wait_until(lambda: len(job_context.batch_writer.taken) >= 3, what="three attempts")
        assert client.status(job_id).state is JobState.RETRYING
        job_context.batch_writer.answer = 1
        (status,) = client.wait([job_id], timeout_seconds=600)
    assert status.state is JobState.DONE
    ours = [headers for headers in published if headers["task"] == StorePayload.task]
    assert len(ours) >= 2
    assert {headers["id"] for headers in ours} == {job_id}
    assert {headers["argsrepr"] for headers in ours} == {"1 memories"}
    assert [headers["retries"] for headers in ours] == list(range(1, len(ours) + 1))


def test_a_newer_payload_goes_round_until_a_newer_worker_comes(
    client: MemoryClient, broker: BrokerAddress, job_context: ScriptedContext, app_of: Any,
    published: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("workers.celery_task.NEWER_DELAY", timedelta(0))
    newer = json.dumps({"version": VERSION + 1, "company": "acme", "blobs": [WORD]})
    owner = job_owner("acme", "ada")
    job = OutgoingJob(job_id="job-2", queue=str(Queue.STORE), payload=newer, summary="1 memories", owner=owner)
    client._sender.publish(StorePayload.task, [job], track=True)
    app = app_of(STORE)
    with working(app, Queue.STORE):
        wait_until(lambda: len(published) >= 3, what="three rounds")
        assert not client.status("job-2").is_finished
    assert job_context.batch_writer.taken == []
    assert job_context.ledger.dead_letters.count("acme") == 0
    assert {(headers["id"], headers["retries"], headers["argsrepr"], headers["owner"]) for headers in published} == {
        ("job-2", 0, "1 memories", owner)
    }
    with broker.client() as redis:
        assert queue_length(redis, str(Queue.STORE)) + redis.hlen("unacked.store") == 1


def test_a_job_that_only_newer_workers_know_waits_for_one_and_is_not_quoted(
    client: MemoryClient, broker: BrokerAddress, app_of: Any, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr("workers.consumer.RequeueUnknownConsumer.rest_seconds", 0.2)
    # the worker of a test silences whatever is no error
    caplog.set_level("WARNING", logger="memtend.jobs")
    client._sender._app.send_task(
        "memory.store.of_tomorrow", args=(WORD,), task_id="job-3", queue=str(Queue.STORE), argsrepr="1 memories"
    )

    def rounds() -> int:
        return sum(record.message == "job.unknown" for record in caplog.records)

    with working(app_of(STORE), Queue.STORE):
        wait_until(lambda: rounds() >= 3, what="three rounds")
        known = OutgoingJob(job_id="known", queue=str(Queue.STORE), payload="{}", summary="s")
        client._sender.publish(StorePayload.task, [known], track=True)
        list(client.wait(["known"], timeout_seconds=600))
        assert not client.status("job-3").is_finished
    with broker.client() as redis:
        assert queue_length(redis, str(Queue.STORE)) + redis.hlen("unacked.store") == 1
    assert newest(broker, Queue.STORE)["headers"]["id"] == "job-3"
    assert WORD not in caplog.text


def test_an_unknown_companys_job_is_kept_until_the_company_is_registered_and_it_is_replayed(
    settings: Settings, job_context: ScriptedContext, app_of: Any
) -> None:
    letters = job_context.ledger.dead_letters
    engine = MemoryClient.from_settings(settings.model_copy(update={"company": "globex"}))
    with engine as client, working(app_of(STORE), SHARD):
        (job_id,) = client.store("ada", REQUEST).job_ids
        (refused,) = client.wait([job_id], timeout_seconds=600)
        assert refused.state is JobState.DEAD
        assert "'globex' is not registered; see `memtend companies list`" in (refused.reason or "")
        assert (letters.ids("globex"), letters.ids("acme")) == ((job_id,), ())
        assert job_context.batch_writer.taken == []

        job_context.ledger.companies.add("globex")
        letter = present(letters.get(job_id))
        client._sender.forget(job_id)
        job = OutgoingJob(job_id=job_id, queue=letter.queue, payload=letter.payload, summary="replayed")
        client._sender.publish(letter.job, [job], track=True)
        (written,) = client.wait([job_id], timeout_seconds=600)
    assert written.state is JobState.DONE


def test_a_run_that_is_snoozed_still_reports_its_end(
    client: MemoryClient, job_context: ScriptedContext, app_of: Any
) -> None:
    job_context.maintenance_run = lambda _run_id: Deferred(reason="maintenance is paused for all agents")
    run_id = client.maintain_now("ada").job_id
    with working(app_of(MAINTENANCE_RUN), Queue.MAINTENANCE):
        wait_until(lambda: client.status(run_id).state is JobState.SNOOZED, what="the run to be parked")
        assert client.status(run_id).reason == "maintenance is paused for all agents"
        run = present(job_context.ledger.runs.get("acme", run_id))
        assert run.state is WorkState.AVAILABLE
        job_context.maintenance_run = ScriptedContext.maintenance_run
        payload = MaintenancePayload(company="acme", agent_id="ada", run_id=run_id, planned_at=run.planned_at)
        again = OutgoingJob(
            job_id=run_id, queue=str(Queue.MAINTENANCE), payload=payload.model_dump_json(), summary="again"
        )
        client._sender.publish(MaintenancePayload.task, [again], track=True)
        (status,) = client.wait([run_id], timeout_seconds=600)
    assert (status.state, status.facts) == (JobState.DONE, {"live": 3})


def test_uses_travel_from_a_recorder_to_the_ledger_and_a_batch_counts_once(
    client: MemoryClient, job_context: ScriptedContext, app_of: Any
) -> None:
    now = job_context.clock()
    with BufferedUseRecorder(client.record_use) as recorder:
        recorder.record("ada", ["a", "b"], at=now)
        recorder.record("ada", ["a"], at=now)
    again = Use(agent_id="ada", memory_id="again", uses=1, last_used_at=now)
    for _ in range(2):
        assert client.record_use([again], batch_id="one batch").job_id == "one batch"
    client.record_use([again.model_copy(update={"memory_id": "last"})])
    wanted = ["a", "b", "again", "last"]
    with working(app_of(MAINTENANCE_RUN), Queue.CONTROL):
        wait_until(lambda: "last" in job_context.ledger.uses.of("acme", "ada", wanted), what="the last batch")
    counts = {key: use.uses for key, use in job_context.ledger.uses.of("acme", "ada", wanted).items()}
    assert counts == {"a": 2, "b": 1, "again": 1, "last": 1}
    for bad in ([], [again] * 1_025):
        with pytest.raises(MemoryInputError, match=r"^uses: "):
            client.record_use(bad)
