"""Sentinels say where the master is; when it dies, clients and workers go on with the one that they name next."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.messaging import Consumer
from support.running_stack import wait_until
from support.sentinel_servers import Sentinels, sentinels

from memcore import MemoryClient
from memcore.client.publisher import broker_queue
from memcore.config.settings import Settings
from memcore.config.urls import Address
from memcore.errors import MemoryConnectionError
from memcore.jobs import Queue, store_queue
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from workers.broker import waiting
from workers.transport import register, reliable_url
from workers.transport.transport import SentinelChannel

SHARD = store_queue("ada")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Sentinels]:
    register()
    with sentinels(tmp_path) as running:
        yield running


@pytest.fixture
def settings(guarded: Sentinels, tmp_path: Path) -> Settings:
    return Settings(
        broker_url=guarded.url, database_url=f"sqlite:///{tmp_path / 'ledger.db'}", home=tmp_path,
        qdrant_url="http://127.0.0.1:9", company="acme",
    )  # fmt: skip


def store(client: MemoryClient, number: int) -> bool:
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"fact {number}")
    try:
        client.store("ada", request)
    except MemoryConnectionError:
        return False
    return True


def can_ask(client: MemoryClient) -> bool:
    try:
        return client.status("unknown").state == "pending"
    except MemoryConnectionError:
        return False


class Consuming:
    """A consumer over our transport that connects again when its master is gone, as a worker does."""

    def __init__(self, settings: Settings) -> None:
        self.taken: list[str] = []
        self._address = Address.of(settings.broker_url)
        self._connection: Any = None

    def take(self) -> int:
        """Take what comes within a second; return how many different jobs have come so far."""
        connection = self._connection = self._connection or self._connect()
        try:
            if not connection.connected:
                assert isinstance(connection.default_channel, SentinelChannel)
                queues = [broker_queue(str(SHARD))]
                Consumer(connection.default_channel, queues, callbacks=[self._note]).consume()
            connection.drain_events(timeout=1)
        except TimeoutError:
            pass
        except connection.connection_errors:
            self.close()
        return len(set(self.taken))

    def _connect(self) -> Any:
        options = {"visibility_timeout": 60, "socket_timeout": 2, **self._address.options}
        return Connection(reliable_url(self._address.url), transport_options=options)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.collect()
            self._connection = None

    def _note(self, _body: object, message: Any) -> None:
        self.taken.append(message.headers["id"])
        message.ack()


def test_jobs_before_and_after_a_fail_over_arrive_once_each(guarded: Sentinels, settings: Settings) -> None:
    consuming = Consuming(settings)
    with MemoryClient.from_settings(settings) as client:
        assert can_ask(client)
        assert all(store(client, number) for number in range(5))
        assert waiting(settings)[str(SHARD)] == 5
        wait_until(lambda: consuming.take() >= 2, what="the first jobs")

        guarded.fail_over()
        for number in range(5, 10):
            wait_until(lambda number=number: store(client, number), what="the client to find the new master")  # type: ignore[misc]  # a default binds the loop's value

        wait_until(lambda: can_ask(client), what="the client to ask the new master for outcomes")
    wait_until(lambda: consuming.take() >= 10, what="the jobs of both masters")
    consuming.close()
    assert len(consuming.taken) == len(set(consuming.taken)) == 10
    counts = waiting(settings)
    assert counts == dict.fromkeys(map(str, Queue), 0)
    with guarded.replica.client() as master:
        assert master.hlen("unacked") == 0
