"""``Memory.mem0``: a mem0.Memory that sees one agent's memories, on the same collection and history as memtend."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from support.hashing_embedder import HashingEmbedder
from support.memories import StoppedClock, new_agent, record
from support.store_servers import StoreAddress

from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import MemoryCapabilityError, MemoryConfigError, MemoryInputError, MissingExtraError
from memcore.extras import EXTRAS
from memcore.memory.stock_mem0 import import_mem0, open_agent_mem0
from memcore.models.memory import MemoryCategory, MemoryQuery


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    import_mem0(tmp_path)


@pytest.fixture
async def backend(place: Mem0Config, clock: StoppedClock) -> AsyncIterator[Mem0Backend]:
    made = Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
    await made.connect()
    yield made
    await made.disconnect()


@pytest.fixture
def opened(place: Mem0Config, backend: Mem0Backend, request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Return a function that opens the mem0.Memory of an agent."""

    def opening(agent: str) -> Any:
        memory = open_agent_mem0(place, backend, agent)
        request.addfinalizer(memory.close)
        return memory

    return opening


def ids(answer: dict[str, Any]) -> set[str]:
    return {one["id"] for one in answer["results"]}


async def test_what_memtend_stored_is_found_listed_read_and_explained(
    backend: Mem0Backend, opened: Callable[[str], Any], address: StoreAddress, sockets: Callable[[], set[object]]
) -> None:
    agent = new_agent()
    tea = record(agent, "Mara drinks green tea in the morning", tags=("taste",), category=MemoryCategory.SOCIAL)
    rest = [record(agent, f"the build number {i} was green") for i in range(5)]
    await backend.store_many([tea, *rest])

    memory = opened(agent)

    everything = {one.entry.id for one in (tea, *rest)}
    assert ids(memory.get_all(filters={"agent_id": agent})) == everything
    found = memory.search("what does Mara drink in the morning", filters={"agent_id": agent}, top_k=3)["results"]
    assert (found[0]["id"], found[0]["memory"]) == (tea.entry.id, tea.entry.content)
    assert found[0]["metadata"]["category"] == "social"
    assert memory.get(tea.entry.id)["memory"] == tea.entry.content
    assert [row["event"] for row in memory.history(tea.entry.id)] == ["ADD"]
    host, port = address.url.removeprefix("http://").split(":")
    assert sockets() == {(host, int(port))}


async def test_what_mem0_adds_for_a_user_is_a_memory_of_the_agent_that_memtend_finds_by_its_words(
    backend: Mem0Backend, opened: Callable[[str], Any]
) -> None:
    agent = new_agent()
    memory = opened(agent)

    added = memory.add("Lena plays the cello", user_id="lena", infer=False, metadata={"mood": "calm"})
    memory_id = added["results"][0]["id"]

    (entry,) = await backend.retrieve(agent, MemoryQuery(text="who plays the cello"))
    assert (entry.id, entry.content, entry.agent_id) == (memory_id, "Lena plays the cello", agent)
    words = await backend.retrieve_sparse(agent, MemoryQuery(text="cello"))
    assert [each.id for each in words] == [memory_id]
    newest = await backend.retrieve(agent, MemoryQuery())
    assert [each.id for each in newest] == [memory_id]
    (kept,) = await backend.get_many(agent, [memory_id])
    assert kept.extra["mood"] == "calm"
    assert ids(memory.get_all(filters={"user_id": "lena"})) == {memory_id}


async def test_what_mem0_changes_and_deletes_memtend_sees(backend: Mem0Backend, opened: Callable[[str], Any]) -> None:
    agent = new_agent()
    tea = record(agent, "Mara drinks green tea", tags=("taste",), category=MemoryCategory.SOCIAL)
    await backend.store_many([tea])
    memory = opened(agent)

    memory.update(tea.entry.id, data="Mara drinks black coffee")
    entry = await backend.get(agent, tea.entry.id)
    assert entry is not None
    assert (entry.content, entry.category, entry.metadata.tags) == (
        "Mara drinks black coffee", MemoryCategory.SOCIAL, ("taste",),
    )  # fmt: skip
    assert [each.id for each in await backend.retrieve_sparse(agent, MemoryQuery(text="coffee"))] == [tea.entry.id]

    memory.delete(tea.entry.id)
    assert await backend.get(agent, tea.entry.id) is None
    assert [row["event"] for row in memory.history(tea.entry.id)] == ["ADD", "UPDATE", "DELETE"]


async def test_another_agents_memories_are_neither_seen_nor_changed(
    backend: Mem0Backend, opened: Callable[[str], Any]
) -> None:
    mine, other = new_agent(), new_agent()
    theirs = record(other, "the vault's code is 4711")
    await backend.store_many([theirs])
    memory = opened(mine)

    assert memory.get(theirs.entry.id) is None
    for filters in (
        {"agent_id": other},
        {"user_id": other},
        {"agent_id": "*"},
        {"user_id": "*", "OR": [{"agent_id": other}, {"category": "episodic"}]},
        {"user_id": "*", "NOT": [{"category": "social"}]},
    ):
        assert memory.get_all(filters=filters)["results"] == []
        assert memory.search("what is the code of the vault", filters=filters)["results"] == []
    memory.delete_all(agent_id=other)
    with pytest.raises(ValueError, match="not found"):
        memory.update(theirs.entry.id, data="the vault is open")
    with pytest.raises(ValueError, match="not found"):
        memory.delete(theirs.entry.id)

    entry = await backend.get(other, theirs.entry.id)
    assert entry is not None
    assert entry.content == theirs.entry.content


async def test_expired_memories_stay_hidden(
    backend: Mem0Backend, opened: Callable[[str], Any], clock: StoppedClock
) -> None:
    agent = new_agent()
    gone = record(agent, "the door's code is 12", expires_at=clock())
    await backend.store_many([gone])

    assert opened(agent).get_all(filters={"agent_id": agent})["results"] == []


async def test_it_refuses_what_would_lose_memories(backend: Mem0Backend, opened: Callable[[str], Any]) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, "Mara drinks green tea")])
    memory = opened(agent)

    with pytest.raises(MemoryCapabilityError, match="infer=False"):
        memory.add("I moved to Rome", user_id="mara")
    with pytest.raises(MemoryCapabilityError, match="every agent"):
        memory.reset()
    with pytest.raises(MemoryCapabilityError, match="every agent"):
        memory.vector_store.reset()

    assert await backend.count(agent) == 1
    assert len(memory.history((await backend.retrieve(agent, MemoryQuery()))[0].id)) == 1


async def test_what_cannot_be_opened_is_named(
    place: Mem0Config, backend: Mem0Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = place.model_copy(update={"history_url": "postgresql://127.0.0.1/memtend"})
    with pytest.raises(MemoryConfigError, match="SQLite"):
        open_agent_mem0(elsewhere, backend, "a")
    with pytest.raises(MemoryConfigError, match="inmemory"):
        open_agent_mem0(place, InMemoryBackend(company="c"), "a")
    with pytest.raises(MemoryInputError, match="agent_id"):
        open_agent_mem0(place, backend, "__shared__")

    from mem0.memory import telemetry  # noqa: PLC0415  # mem0 is loaded by the fixture

    assert telemetry.MEM0_TELEMETRY is False
    monkeypatch.setattr(telemetry, "MEM0_TELEMETRY", True)
    with pytest.raises(MemoryConfigError, match="telemetry"):
        open_agent_mem0(place, backend, "a")

    monkeypatch.setitem(EXTRAS, "mem0", ("mem0_that_is_nowhere",))
    with pytest.raises(MissingExtraError, match=r"memtend\[mem0\]"):
        open_agent_mem0(place, backend, "a")
