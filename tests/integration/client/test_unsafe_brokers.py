"""A Redis that may lose jobs is refused, and a full one is named full."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError
from support.valkey_servers import BrokerAddress, queue_length, valkey_server

from memcore import MemoryClient
from memcore.config.settings import Settings
from memcore.errors import MemoryBrokerFullError, MemoryBrokerUnsafeError
from memcore.jobs import Queue
from ops.cli.running.health_checks import broker as look

MEMORY = {"content": "The lift is out of order.", "category": "semantic"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerAddress]:
    with valkey_server(tmp_path / "valkey") as running:
        yield running


def waiting(server: BrokerAddress) -> int:
    with server.client() as client:
        return sum(queue_length(client, str(queue)) for queue in Queue)


def settings(server: BrokerAddress, home: Path, *, may_lose: bool = False) -> Settings:
    return Settings(
        broker_url=server.url, database_url="sqlite://", qdrant_url="http://q", home=home, broker_may_lose=may_lose
    )


def finding(server: BrokerAddress, home: Path, *, may_lose: bool = False) -> tuple[bool, str]:
    (found,) = (each for each in look(settings(server, home, may_lose=may_lose)) if each.check == "broker keeps jobs")
    return found.ok, found.seen


@pytest.mark.parametrize(
    ("name", "value"),
    [("maxmemory-policy", "allkeys-lru"), ("maxmemory-policy", "allkeys-random"), ("appendonly", "no")],
)
def test_a_broker_that_may_lose_jobs_is_refused_unless_it_is_allowed(
    server: BrokerAddress, tmp_path: Path, name: str, value: str
) -> None:
    with server.client() as client:
        client.config_set(name, value)
    with MemoryClient(server.url) as sender:
        with pytest.raises(MemoryBrokerUnsafeError, match=f"{name} is {value}.*MEMTEND_BROKER_MAY_LOSE"):
            sender.store("a", MEMORY)
        assert waiting(server) == 0
        with server.client() as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("appendonly", "yes")
        sender.store("a", MEMORY)
    with server.client() as client:
        client.config_set(name, value)
    assert finding(server, tmp_path)[0] is False
    is_ok, seen = finding(server, tmp_path, may_lose=True)
    assert is_ok
    assert "MEMTEND_BROKER_MAY_LOSE" in seen
    with MemoryClient.from_settings(settings(server, tmp_path, may_lose=True)) as sender:
        sender.store("a", MEMORY)
    assert waiting(server) == 2


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
def test_a_broker_that_evicts_no_job_is_taken(server: BrokerAddress, tmp_path: Path, policy: str) -> None:
    with server.client() as client:
        client.config_set("maxmemory-policy", policy)
    with MemoryClient(server.url) as sender:
        sender.store("a", MEMORY)
    assert finding(server, tmp_path) == (True, "appendonly, evicts no job")


def test_a_broker_that_shows_no_settings_is_taken_and_the_doctor_says_so(server: BrokerAddress, tmp_path: Path) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-config")
        with pytest.raises(NoPermissionError):
            client.config_get("appendonly")
    with MemoryClient(server.url) as sender:
        sender.store("a", MEMORY)
    is_ok, seen = finding(server, tmp_path)
    assert is_ok
    assert "shows no settings" in seen


def test_a_full_broker_is_named_full(server: BrokerAddress) -> None:
    with MemoryClient(server.url) as sender:
        sender.store("a", MEMORY)
        with server.client() as client:
            client.config_set("maxmemory", "1")
        with pytest.raises(MemoryBrokerFullError, match="the broker is full"):
            sender.store("a", MEMORY)
        with server.client() as client:
            client.config_set("maxmemory", "0")
        sender.store("a", MEMORY)
