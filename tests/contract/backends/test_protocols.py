"""What a backend is, before and after it is connected."""

from collections.abc import Awaitable, Callable
from itertools import product

import pytest
from support.memories import new_agent, record

from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import BatchBackend, MemoryBackend, MemoryCapabilities
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.records import SearchNotes, Where

REQUEST = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="the door code changed")

#: Every call that reaches memories, made for one agent.
CALLS: dict[str, Callable[[WorkerBackend, str], Awaitable[object]]] = {
    "store": lambda backend, agent: backend.store(agent, REQUEST),
    "retrieve": lambda backend, agent: backend.retrieve(agent, MemoryQuery()),
    "retrieve by text": lambda backend, agent: backend.retrieve(agent, MemoryQuery(text="door")),
    "get": lambda backend, agent: backend.get(agent, "x"),
    "delete": lambda backend, agent: backend.delete(agent, "x"),
    "count": lambda backend, agent: backend.count(agent),
    "store_many": lambda backend, agent: backend.store_many([record(agent)]),
    "get_many": lambda backend, agent: backend.get_many(agent, ["x"]),
    "delete_many": lambda backend, agent: backend.delete_many(agent, ["x"]),
    "delete_where": lambda backend, agent: backend.delete_where(Where(agent_id=agent)),
    "count_where": lambda backend, agent: backend.count_where(Where(agent_id=agent)),
    "scopes": lambda backend, agent: backend.scopes(Where(agent_id=agent), "session_id"),
    "scan": lambda backend, agent: backend.scan(Where(agent_id=agent)),
    "set_metadata_many": lambda backend, agent: backend.set_metadata_many(agent, ["x"], MemoryMetadata()),
    "set_search_notes": lambda backend, agent: backend.set_search_notes(agent, {"x": SearchNotes(by="m", texts=())}),
    "claim": lambda backend, agent: backend.claim(Where(agent_id=agent), "token"),
    "unclaim": lambda backend, agent: backend.unclaim(agent),
}


def test_it_keeps_all_three_protocols(backend: WorkerBackend) -> None:
    assert isinstance(backend, MemoryBackend)
    assert isinstance(backend, BatchBackend)
    assert isinstance(backend, MemoryCapabilities)
    assert backend.supported_categories == frozenset(MemoryCategory)
    assert backend.supports_temporal


async def test_connecting_and_disconnecting_twice_is_doing_it_once(backend: WorkerBackend) -> None:
    await backend.connect()
    assert backend.is_connected
    assert await backend.health_check()

    await backend.disconnect()
    await backend.disconnect()
    health = await backend.health_check()
    assert (backend.is_connected, health) == (False, False)

    await backend.connect()
    assert await backend.health_check()


async def test_no_call_goes_through_before_connect(backend: WorkerBackend) -> None:
    await backend.disconnect()

    for name, call in CALLS.items():
        with pytest.raises(MemoryConnectionError, match="not connected"):
            pytest.fail(f"{name} answered {await call(backend, new_agent())}")


async def test_no_call_takes_a_reserved_or_overlong_agent_id(backend: WorkerBackend) -> None:
    for (name, call), agent_id in product(CALLS.items(), ("__shared__", "__synthorg_shared__", "a" * 257)):
        with pytest.raises(MemoryInputError, match="agent_id"):
            pytest.fail(f"{name} answered {await call(backend, agent_id)} to {agent_id}")


async def test_a_memory_whose_id_is_no_uuid_is_refused(backend: WorkerBackend) -> None:
    with pytest.raises(MemoryInputError, match="id"):
        await backend.store_many([record(new_agent(), memory_id="../../etc")])


async def test_disconnecting_does_not_lose_memories(backend: WorkerBackend) -> None:
    agent = new_agent()
    memory_id = await backend.store(agent, REQUEST)

    await backend.disconnect()
    await backend.connect()

    assert await backend.get(agent, memory_id) is not None
