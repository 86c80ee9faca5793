"""A store server, and backends on collections of their own."""

from collections.abc import Callable, Iterator

import pytest
from support.memories import StoppedClock
from support.store_servers import StoreAddress

from memcore.backends.mem0.config import Mem0Config


@pytest.fixture(scope="session")
def address(shared_store: StoreAddress) -> StoreAddress:
    return shared_store


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def place(
    address: StoreAddress, shared_place: Mem0Config, sqlite_history: str, request: pytest.FixtureRequest
) -> Iterator[Mem0Config]:
    """A collection and a history of the test's own."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    collection = Mem0Config.collection_of(name)
    yield shared_place.model_copy(update={"history_url": sqlite_history, "collection": collection})
    address.drop(collection)


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
