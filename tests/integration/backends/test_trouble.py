"""A store that fails: typed errors, no memory text in them, and nothing half told."""

import socket
from pathlib import Path

import pytest
from pydantic import SecretStr
from support.hashing_embedder import HashingEmbedder
from support.memories import new_agent, record
from support.store_servers import start_store, stop

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryStoreError
from memcore.ledger.migrate import migrate_history
from memcore.models.memory import MemoryQuery
from memcore.records import Where

SECRET = "the vault combination is 17 4 33"


def made(place: Mem0Config) -> Mem0Backend:
    return Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder())


async def test_a_store_that_is_not_there_is_a_connection_error(tmp_path: Path) -> None:
    with socket.socket() as held:
        # Bound and not listening: nobody else can take the port, and nobody answers.
        held.bind(("127.0.0.1", 0))
        place = Mem0Config(
            url=f"http://127.0.0.1:{held.getsockname()[1]}", history_url=f"sqlite:///{tmp_path}/h.db", collection="x"
        )
        backend = made(place)
        with pytest.raises(MemoryConnectionError, match="does not answer") as failure:
            await backend.connect()
    assert failure.value.is_retryable
    assert failure.value.__cause__ is not None
    assert not backend.is_connected
    assert not await backend.health_check()


async def test_a_wrong_key_is_said_to_be_one(place: Mem0Config) -> None:
    with pytest.raises(MemoryConnectionError, match="API key"):
        await made(place.model_copy(update={"api_key": SecretStr("wrong")})).connect()


async def test_a_store_that_goes_away_is_noticed_and_its_return_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history_url = f"sqlite:///{tmp_path}/history.db"
    migrate_history(history_url)
    server = start_store(tmp_path / "store")
    port = int(server.url.rsplit(":", 1)[1])
    place = Mem0Config(
        url=server.url, api_key=SecretStr(server.api_key), history_url=history_url, collection="memtend_c"
    )
    backend, agent = made(place), new_agent()
    try:
        await backend.connect()
        stop(server.process)

        with pytest.raises(MemoryConnectionError) as failure:
            await backend.store_many([record(agent, SECRET)])
        assert SECRET not in str(failure.value)
        with pytest.raises(MemoryConnectionError):
            await backend.retrieve(agent, MemoryQuery(text=SECRET))
        assert not await backend.health_check()
        assert "memory.backend.health_check" in caplog.text
        assert SECRET not in caplog.text

        server = start_store(tmp_path / "store", api_key=server.api_key, port=port)
        await backend.store_many([record(agent, SECRET)])
        assert await backend.health_check()
        assert await backend.count(agent) == 1
    finally:
        stop(server.process)
        await backend.disconnect()


async def test_a_history_that_refuses_is_a_store_error_and_the_redelivery_completes_it(place: Mem0Config) -> None:
    backend, agent = made(place), new_agent()
    await backend.connect()
    broken = made(place.model_copy(update={"history_url": place.history_url.replace("history.db", "other.db")}))
    await broken.connect()
    one = record(agent, SECRET)

    # Nobody has migrated that file, so the history fails after the memory has been written.
    with pytest.raises((MemoryStoreError, MemoryConnectionError)) as failure:
        await broken.store_many([one])
    assert failure.value.is_retryable
    assert SECRET not in str(failure.value)

    await backend.store_many([one])
    assert await backend.count(agent) == 1
    await broken.disconnect()
    await backend.disconnect()


async def test_vectors_of_another_length_are_refused_before_anything_is_written(place: Mem0Config) -> None:
    backend, agent = made(place), new_agent()
    await backend.connect()
    await backend.store_many([record(agent)])
    page = await backend.scan(Where(agent_id=agent), with_vectors=True)
    vectors = page.records[0].vectors
    assert vectors is not None
    short = type(vectors)(dense=vectors.dense[:10], sparse=vectors.sparse)

    with pytest.raises(MemoryInputError, match=r"vectors\.dense"):
        await backend.store_many([record(agent, vectors=short)])
    assert await backend.count(agent) == 1
    await backend.disconnect()
