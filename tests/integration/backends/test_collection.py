"""The collection remembers whose vectors lie in it."""

import asyncio
from pathlib import Path

import pytest
from qdrant_client.models import Distance, VectorParams
from support.hashing_embedder import HashingEmbedder
from support.memories import StoppedClock, new_agent, record
from support.store_servers import StoreAddress, start_store, stop, store_server

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.collection import StoreConnections
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.points import INDEXES
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.errors import MemoryConfigError, MemoryConnectionError


def made(place: Mem0Config, embedder: HashingEmbedder | None = None, template: str = "{content}") -> Mem0Backend:
    return Mem0Backend(
        place, company="c", embedder=embedder or HashingEmbedder(), encoder=Bm25Encoder(), text_template=template
    )


async def test_companies_over_the_same_connections_close_by_themselves(place: Mem0Config, clock: StoppedClock) -> None:
    connections = StoreConnections(place, clock=clock)
    first, second = (
        Mem0Backend(
            place.model_copy(update={"collection": f"{place.collection}_{company}"}),
            company=company, embedder=HashingEmbedder(), encoder=Bm25Encoder(), connections=connections, clock=clock,
        )
        for company in ("acme", "bolt")
    )  # fmt: skip
    for backend in (first, second):
        await backend.connect()
    ours = record(new_agent(), "the vault opens at nine")
    await first.store_many([ours])
    await first.disconnect()
    assert await second.get_many(ours.entry.agent_id, [ours.entry.id]) == ()
    await first.connect()
    assert second.is_connected
    assert len(await first.get_many(ours.entry.agent_id, [ours.entry.id])) == 1
    for backend in (first, second):
        await backend.disconnect()
    connections.close()


class RenamedEmbedder(HashingEmbedder):
    """Other vectors of the same length."""

    @property
    def name(self) -> str:
        return "hashing-2027"


async def test_another_embedder_of_the_same_length_is_refused_by_name(place: Mem0Config) -> None:
    first = made(place)
    await first.connect()
    await first.disconnect()

    with pytest.raises(MemoryConfigError) as refusal:
        await made(place, RenamedEmbedder()).connect()

    for part in ("hashing-64", "hashing-2027", "memtend reindex", place.collection):
        assert part in str(refusal.value)


async def test_another_number_of_dimensions_is_refused(place: Mem0Config) -> None:
    first = made(place)
    await first.connect()
    await first.disconnect()

    with pytest.raises(MemoryConfigError, match=r"64 dimensions.*32 dimensions.*memtend reindex"):
        await made(place, HashingEmbedder(dims=32)).connect()


async def test_another_text_template_is_refused(place: Mem0Config) -> None:
    first = made(place)
    await first.connect()
    await first.disconnect()

    with pytest.raises(MemoryConfigError, match="memtend reindex"):
        await made(place, template="{date} {content}").connect()


async def test_another_count_of_terms_is_refused(place: Mem0Config) -> None:
    await made(place).connect()
    raw = Mem0Backend(
        place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(weighting=TermWeighting.FREQUENCY)
    )
    with pytest.raises(MemoryConfigError, match=r"terms by frequency.*memtend reindex"):
        await raw.connect()


async def test_a_refused_backend_is_not_connected(place: Mem0Config) -> None:
    await made(place).connect()
    refused = made(place, RenamedEmbedder())
    with pytest.raises(MemoryConfigError):
        await refused.connect()
    assert not refused.is_connected
    with pytest.raises(MemoryConnectionError):
        await refused.count(new_agent())


async def test_a_collection_of_another_layout_is_refused(place: Mem0Config, address: StoreAddress) -> None:
    client = address.client()
    client.create_collection(place.collection, vectors_config=VectorParams(size=64, distance=Distance.COSINE))
    client.close()

    with pytest.raises(MemoryConfigError, match="bm25"):
        await made(place).connect()


async def test_many_processes_starting_at_once_agree_on_one_collection(
    place: Mem0Config, address: StoreAddress
) -> None:
    backends = [made(place) for _ in range(6)]
    await asyncio.gather(*(backend.connect() for backend in backends))
    agent = new_agent()
    await asyncio.gather(*(backend.store_many([record(agent)]) for backend in backends))
    assert await backends[0].count(agent) == 6
    for backend in backends:
        await backend.disconnect()

    client = address.client()
    schema = client.get_collection(place.collection).payload_schema
    client.close()
    assert {key: index.data_type for key, index in schema.items()} == INDEXES


async def test_the_template_is_indexed_and_the_content_stays_as_it_was(place: Mem0Config) -> None:
    backend = made(place, template="[{date}] {source}: {content}")
    await backend.connect()
    agent = new_agent()
    one = record(agent, "braces {stay} as they {are")
    await backend.store_many([one])

    stored = (await backend.get_many(agent, [one.entry.id], with_vectors=True))[0]
    await backend.disconnect()

    assert stored.entry.content == "braces {stay} as they {are"
    assert stored.vectors is not None
    expected = HashingEmbedder().embed_query("[1 March 2026] : braces {stay} as they {are")
    assert stored.vectors.dense == pytest.approx(expected, abs=1e-6)
    sparse = Bm25Encoder().encode_document("[1 March 2026] : braces stay as they are")
    assert stored.vectors.sparse is not None
    assert stored.vectors.sparse.indices == sparse.indices
    assert stored.vectors.sparse.values == pytest.approx(sparse.values, abs=1e-6)


def test_what_is_recorded_with_a_collection_outlives_the_store_server(tmp_path: Path) -> None:
    server = start_store(tmp_path)
    client = server.client()
    vectors = VectorParams(size=4, distance=Distance.COSINE)
    client.create_collection("c", vectors_config=vectors, metadata={"made": "first", "by": "us"})
    client.update_collection("c", metadata={"made": "later"})
    client.close()
    server.process.kill()
    stop(server.process)

    with store_server(tmp_path) as address:
        client = address.client()
        assert client.get_collection("c").config.metadata == {"made": "later", "by": "us"}
        client.close()
