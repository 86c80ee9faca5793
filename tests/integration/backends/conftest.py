"""A store server, and backends on collections of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from support.memories import StoppedClock
from support.store_servers import StoreAddress, store_server

from memcore.backends.mem0.config import Mem0Config
from memcore.ledger.migrate import migrate_history


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreAddress]:
    with store_server(tmp_path_factory.mktemp("store")) as address:
        yield address


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def place(address: StoreAddress, tmp_path: Path, request: pytest.FixtureRequest) -> Mem0Config:
    """A collection and a history of the test's own."""
    url = f"sqlite:///{tmp_path / 'history.db'}"
    migrate_history(url)
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    return Mem0Config(
        url=address.url, api_key=SecretStr(address.api_key), history_url=url, collection=Mem0Config.collection_of(name)
    )


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[object]]:
    """Return a function that tells to which addresses a socket was connected since the test began."""
    import socket  # noqa: PLC0415  # the test spies on it

    seen: set[object] = set()
    connect = socket.socket.connect

    def spy(self: socket.socket, where: object) -> None:
        seen.add(where)
        connect(self, where)  # type: ignore[arg-type]  # passed through as it came

    monkeypatch.setattr(socket.socket, "connect", spy)
    return lambda: seen
