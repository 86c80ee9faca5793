"""Stock mem0ai on the same collection and history: it reads what memtend writes, and lays out what memtend expects."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.hashing_embedder import HashingEmbedder
from support.memories import DAWN, StoppedClock, new_agent, record
from support.stock_mem0 import close_mem0, open_mem0
from support.store_servers import StoreAddress

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import MemoryCapabilityError, MemoryConfigError
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery
from memcore.records import Where


def made(place: Mem0Config, clock: StoppedClock) -> Mem0Backend:
    return Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)


async def test_stock_mem0_lists_searches_gets_and_explains_what_memtend_wrote(
    place: Mem0Config, clock: StoppedClock, tmp_path: Path, address: StoreAddress, sockets: Callable[[], set[object]]
) -> None:
    agent = new_agent()
    backend = made(place, clock)
    await backend.connect()
    tea = record(agent, "Mara drinks green tea in the morning", tags=("taste",), category=MemoryCategory.SOCIAL)
    rest = [record(agent, f"the build number {i} was green") for i in range(30)]
    gone = record(agent, "Mara used to drink coffee")
    await backend.store_many([tea, *rest, gone])
    await backend.delete(agent, gone.entry.id)
    await backend.disconnect()

    memory = open_mem0(place, HashingEmbedder(), folder=tmp_path)
    try:
        listed = memory.get_all(filters={"agent_id": agent}, top_k=100)["results"]
        assert {one["id"] for one in listed} == {one.entry.id for one in (tea, *rest)}
        assert len(memory.get_all(filters={"user_id": agent}, top_k=100)["results"]) == 31

        found = memory.search("what does Mara drink in the morning", filters={"agent_id": agent}, top_k=3)["results"]
        assert found[0]["id"] == tea.entry.id
        assert found[0]["memory"] == tea.entry.content
        assert found[0]["metadata"]["category"] == "social"
        assert found[0]["metadata"]["tags"] == ["taste"]
        assert found[0]["created_at"] == DAWN.isoformat()

        one = memory.get(tea.entry.id)
        assert one is not None
        assert (one["memory"], one["agent_id"], one["user_id"]) == (tea.entry.content, agent, agent)

        added = memory.history(tea.entry.id)
        assert [(row["event"], row["new_memory"], row["is_deleted"]) for row in added] == [
            ("ADD", tea.entry.content, False)
        ]
        removed = memory.history(gone.entry.id)
        assert [(row["event"], row["new_memory"]) for row in removed] == [("ADD", None), ("DELETE", None)]
    finally:
        close_mem0(memory)
    host, port = address.url.removeprefix("http://").split(":")
    assert sockets() == {(host, int(port))}


async def test_memtend_reads_counts_and_removes_what_stock_mem0_added(
    place: Mem0Config, clock: StoppedClock, tmp_path: Path
) -> None:
    agent = new_agent()
    backend = made(place, clock)
    await backend.connect()
    memory = open_mem0(place, HashingEmbedder(), folder=tmp_path)
    try:
        added = memory.add("Lena plays the cello", agent_id=agent, infer=False, metadata={"mood": "calm"})
        memory_id = added["results"][0]["id"]

        entry = await backend.get(agent, memory_id)
        assert entry is not None
        assert (entry.content, entry.category, entry.metadata) == (
            "Lena plays the cello", MemoryCategory.SEMANTIC, MemoryMetadata(),
        )  # fmt: skip
        assert await backend.count(agent) == 1
        assert [e.id for e in await backend.retrieve(agent, MemoryQuery(text="who plays the cello"))] == [memory_id]
        (kept,) = await backend.get_many(agent, [memory_id], with_vectors=True)
        assert kept.extra["mood"] == "calm"
        assert kept.extra["role"] == "user"

        assert await backend.delete_where(Where(agent_id=agent)) == 1
        assert memory.get(memory_id) is None
        assert {row["new_memory"] for row in memory.history(memory_id)} == {None}
    finally:
        close_mem0(memory)
        await backend.disconnect()


async def test_the_collection_that_mem0_makes_has_our_layout_and_is_taken_over_while_empty(
    place: Mem0Config, clock: StoppedClock, tmp_path: Path, address: StoreAddress
) -> None:
    theirs = place.model_copy(update={"collection": place.collection + "_theirs"})
    close_mem0(open_mem0(theirs, HashingEmbedder(), folder=tmp_path))
    backend = made(place, clock)
    await backend.connect()
    await backend.disconnect()
    client = address.client()
    before, ours = client.get_collection(theirs.collection), client.get_collection(place.collection)

    assert before.config.params.vectors.model_dump(exclude_none=True) | {"on_disk": None} == (  # type: ignore[union-attr]  # one unnamed vector
        ours.config.params.vectors.model_dump(exclude_none=True) | {"on_disk": None}  # type: ignore[union-attr]  # see above
    )
    assert before.config.params.sparse_vectors == ours.config.params.sparse_vectors
    assert before.payload_schema.keys() <= ours.payload_schema.keys()

    heir = made(theirs, clock)
    await heir.connect()
    await heir.disconnect()
    after = client.get_collection(theirs.collection)
    client.close()
    assert after.payload_schema.keys() == ours.payload_schema.keys()
    assert after.config.metadata == ours.config.metadata


async def test_a_collection_that_mem0_filled_with_unknown_vectors_is_refused(
    place: Mem0Config, clock: StoppedClock, tmp_path: Path
) -> None:
    memory = open_mem0(place, HashingEmbedder(), folder=tmp_path)
    memory.add("Lena plays the cello", agent_id="lena", infer=False)
    close_mem0(memory)

    with pytest.raises(MemoryConfigError, match=r"unrecorded embedder.*hashing-64.*another MEMTEND_COMPANY"):
        await made(place, clock).connect()


def test_without_a_language_model_mem0_refuses_to_infer(place: Mem0Config, tmp_path: Path) -> None:
    memory = open_mem0(place, HashingEmbedder(), folder=tmp_path)
    try:
        with pytest.raises(MemoryCapabilityError):
            memory.llm.generate_response(messages=[])
    finally:
        close_mem0(memory)


def test_other_users_of_mem0_find_its_registries_as_they_were(place: Mem0Config, tmp_path: Path) -> None:
    close_mem0(open_mem0(place, HashingEmbedder(), folder=tmp_path))
    from mem0.utils.factory import EmbedderFactory, LlmFactory  # noqa: PLC0415  # mem0 is loaded by the line above

    assert EmbedderFactory.provider_to_class["huggingface"].startswith("mem0.")
    assert LlmFactory.provider_to_class["openai"][0].startswith("mem0.")


def test_a_history_that_mem0_cannot_read_is_refused(place: Mem0Config, tmp_path: Path) -> None:
    elsewhere = place.model_copy(update={"history_url": "postgresql://127.0.0.1/memtend"})
    with pytest.raises(MemoryConfigError, match="SQLite"):
        open_mem0(elsewhere, HashingEmbedder(), folder=tmp_path)
