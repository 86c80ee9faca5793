"""Events of troubles that no other test brings about: the code that meets one logs it, with its fields and no text."""

import asyncio
import os
import socket
from datetime import timedelta
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any, Never

import pytest
from celery import Celery
from celery.exceptions import Reject
from kombu.utils.json import dumps
from redis.exceptions import ResponseError
from starlette.requests import Request

from memcore.backends.mem0.points import Found, to_entry
from memcore.config.organization import OrgMemoryConfig
from memcore.errors import (
    MemoryConfigError,
    MemoryConnectionError,
    MemoryRetrievalError,
    MemoryStoreError,
    OrgMemoryConnectionError,
    OrgMemoryQueryError,
    OrgMemoryWriteError,
)
from memcore.finetune.runner import health_endpoint
from memcore.jobs import StorePayload
from memcore.ledger import companies
from memcore.org.service import LedgerOrgMemory
from memcore.service.resources import ServiceResources
from memcore.telemetry.events import Event
from memcore.vectorstore.app import _ARRIVED, _failed
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.errors import EngineFailedError
from memcore.vectorstore.store import Store
from tasks.job import all_jobs
from workers.celery_task import build_tasks
from workers.consumer import RequeueUnknownConsumer
from workers.lifecycle import touch_heartbeat
from workers.transport import channel as transport
from workers.transport.qos import ReliableQoS

#: In every error here; no log may hold it.
SECRET = "zyzzyva"


def raising(error: Exception) -> Any:
    def fail(*_: object, **__: object) -> Never:
        raise error

    return fail


@pytest.fixture(autouse=True)
def _no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level("INFO")
    yield
    assert SECRET not in "\n".join(f"{each.getMessage()} {vars(each)}" for each in caplog.records)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage().partition(" ")[0] for each in caplog.records]


def test_a_heartbeat_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    touch_heartbeat(SimpleNamespace(path=Path("/nowhere"), touch=raising(PermissionError(SECRET))))  # type: ignore[arg-type]  # all that it takes
    assert logged(caplog) == [Event.HEARTBEAT_LOST]


def test_a_control_message_that_cannot_be_decoded(caplog: pytest.LogCaptureFixture) -> None:
    consumer: Any = SimpleNamespace(task_consumer=None)
    RequeueUnknownConsumer.on_decode_error(consumer, SimpleNamespace(), ValueError(SECRET))
    assert logged(caplog) == [Event.BROADCAST_UNREADABLE]


def test_a_health_port_that_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, health_endpoint(taken.getsockname()):
        assert logged(caplog) == [Event.FINE_TUNE_HEALTH_SERVER_BIND_FAILED]


def test_a_point_that_is_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    assert to_entry(Found(memory_id="m", score=1.0, payload={"data": SECRET, "created_at": "never"})) is None
    assert logged(caplog) == [Event.MEMORY_MODEL_INVALID]


async def test_a_call_to_the_store_that_fails_by_a_defect(caplog: pytest.LogCaptureFixture) -> None:
    request = Request({"type": "http", "method": "GET", "path": "/collections", "headers": [], _ARRIVED: 0.0})
    assert (await _failed(request, RuntimeError(SECRET))).status_code == EngineFailedError.status
    assert logged(caplog) == [Event.STORE_CALL_CRASHED]


async def test_upkeep_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_collection: object) -> Never:
        raise EngineFailedError("no")

    store: Any = SimpleNamespace(collections={"m": SimpleNamespace(name="m")}, _compact_due=fail)
    await Store.compact(store)
    assert logged(caplog) == [Event.STORE_UPKEEP_FAILED]


@pytest.mark.parametrize(
    ("error", "became", "event"),
    [
        (MemoryConnectionError(SECRET), OrgMemoryConnectionError, Event.ORG_MEMORY_STORE_CONNECT_FAILED),
        (MemoryRetrievalError(SECRET), OrgMemoryQueryError, Event.ORG_MEMORY_QUERY_FAILED),
        (MemoryStoreError(SECRET), OrgMemoryWriteError, Event.ORG_MEMORY_WRITE_FAILED),
    ],
    ids=["connect", "query", "write"],
)
async def test_a_database_of_facts_that_fails(
    error: Exception, became: type[Exception], event: Event, caplog: pytest.LogCaptureFixture
) -> None:
    facts: Any = SimpleNamespace(count=lambda _company: 0)
    memory = LedgerOrgMemory(facts, OrgMemoryConfig(), company="acme")
    await memory.connect()
    with pytest.raises(became):
        await memory._do(raising(error))
    assert logged(caplog) == [event]


async def test_a_broker_that_takes_no_message_for_a_row(caplog: pytest.LogCaptureFixture) -> None:
    resources: Any = SimpleNamespace(company="acme")
    await ServiceResources._dispatched(resources, raising(MemoryConnectionError(SECRET)))
    assert logged(caplog) == [Event.MEMORY_SERVICE_BELL_UNHEARD]


def test_a_step_of_closing_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    nobody: Any = None
    assert not transport.Channel._guarded(nobody, raising(OSError(SECRET)))
    assert logged(caplog) == [Event.TRANSPORT_CLOSE_STEP_FAILED]


def test_a_waiting_connection_that_is_silent(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_socket_readable", lambda _: False)
    ended: list[bool] = []
    connection = SimpleNamespace(_sock=None, disconnect=lambda: ended.append(True))
    waiter = SimpleNamespace(connection=connection, key="memory.store", is_overdue=lambda **_: True)
    channel: Any = SimpleNamespace(_waiters={"memory.store": waiter}, health_check_interval=10)
    transport.Channel.drop_stale_waiters(channel)
    assert (ended, logged(caplog)) == ([True], [Event.TRANSPORT_BELL_SILENT])


def test_a_broker_that_refuses_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    waiter: Any = SimpleNamespace(key="memory.store", listen=None, wait_started_at=None)
    channel: Any = SimpleNamespace(_watch=raising(ResponseError("OOM")), _ready=set(), global_keyprefix="")
    with pytest.raises(Empty):
        transport.Channel._hear(channel, waiter)
    assert logged(caplog) == [Event.TRANSPORT_BELL_REFUSED]


def qos(channel: object) -> ReliableQoS:
    found: Any = object.__new__(ReliableQoS)
    found.channel, found._owner_pid = channel, os.getpid()
    found._on_collect, found._delivered = SimpleNamespace(cancel=lambda: None), Delivered()
    return found  # type: ignore[no-any-return]  # made without kombu's connection


class Delivered(dict[str, Any]):
    restored = False


def test_messages_that_cannot_be_given_back_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    qos(None).restore_unacked_once()
    assert logged(caplog) == [Event.TRANSPORT_RESTORE_POSTPONED]


def test_a_message_that_names_no_queue(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[object] = []
    channel = SimpleNamespace(
        lists_of=lambda *_: [],
        run=lambda *given: kept.append(given),
        _get_message_priority=lambda *_, **__: 0,
        unacked_index_key="unacked_index",
    )
    message = {"body": SECRET, "headers": {}, "properties": {"delivery_info": {}}}
    entry = dumps([message, "", "nowhere"]).encode()
    qos(channel)._restore("tag", entry, idle_seconds=1.0, leftmost=False)
    assert (len(kept), logged(caplog)) == (1, [Event.TRANSPORT_RESTORE_UNROUTABLE])


def test_a_company_whose_policy_is_wrong(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companies, "_unremoved", lambda *_: [SimpleNamespace(company="acme")])
    settings: Any = SimpleNamespace(company="acme")
    policies: Any = SimpleNamespace(of=raising(MemoryConfigError("policy: is wrong")), _settings=settings)
    nobody: Any = None
    assert companies.CompanyPolicies.served(policies, nobody) == []
    assert logged(caplog) == [Event.SCHEDULER_COMPANY_LEFT_OUT]


async def test_a_collection_that_cannot_be_written_when_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> Never:
        raise EngineFailedError("no")

    closed: list[str] = []
    parts = {
        name: SimpleNamespace(close=lambda name=name: closed.append(name))  # the name of its time
        for name in ("shard", "_count")
    }
    collection: Any = SimpleNamespace(_turn=asyncio.Lock(), _is_open=True, settle=fail, name="m", **parts)
    await Collection.close(collection)
    assert (closed, logged(caplog)) == (["shard", "_count"], [Event.STORE_CLOSE_UNWRITTEN])


def test_a_job_whose_connections_cannot_be_opened_goes_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.celery_task._put_back", raising(Reject("back to its queue")))
    monkeypatch.setattr("workers.celery_task.IN_HAND", timedelta(0))
    app = Celery(set_as_current=False, broker="memory://")
    contexts: Any = SimpleNamespace(of=raising(MemoryConnectionError(SECRET)), refused_seconds=lambda _company: 0.0)
    (job,) = (each for each in all_jobs() if each.name == StorePayload.task)
    build_tasks(app, [job], contexts)
    with pytest.raises(Reject):
        app.tasks[job.name].run("{}")
    assert logged(caplog) == [Event.CREW_ABSENT]
