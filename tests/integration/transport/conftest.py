from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Queue
from redis import Redis
from support.valkey_servers import BrokerAddress, valkey_server

from workers.transport import register, reliable_url

#: Opens a connection: ``connect("stock" | "ours", url=..., **transport_options)``.
type_of_connect = Callable[..., Any]

QUEUE = Queue("jobs", routing_key="jobs")


def publish(connection: Any, *bodies: str) -> None:
    with connection.Producer() as producer:
        for body in bodies:
            producer.publish(body, routing_key="jobs", declare=[QUEUE])


def drain_for_ever(connection: Any) -> None:
    while True:
        connection.drain_events(timeout=60)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with valkey_server(Path(tmp_path_factory.mktemp("valkey"))) as running:
        yield running


@pytest.fixture
def broker(server: BrokerAddress) -> BrokerAddress:
    """Give a running, empty server; a test may kill and restart it."""
    if server.process is None or server.process.poll() is not None:
        server.start()
    with server.client() as client:
        client.flushall()
    return server


@pytest.fixture
def store(broker: BrokerAddress) -> Iterator[Redis]:
    """Look at the server's keys, past every transport."""
    with broker.client() as client:
        yield client


@pytest.fixture
def connect(broker: BrokerAddress) -> Iterator[type_of_connect]:
    register()
    opened: list[Any] = []

    def open_connection(transport: str, *, url: str | None = None, **options: Any) -> Any:
        address = url or broker.url
        connection = Connection(reliable_url(address) if transport == "ours" else address, transport_options=options)
        opened.append(connection)
        return connection

    yield open_connection
    for connection in opened:
        connection.collect()
