"""Preparing messages while the real store server, the embedder or the shared store goes away in the middle."""

import builtins
import os
import re
import signal
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import SecretStr
from sqlalchemy import create_engine, text
from support.hashing_embedder import HashingEmbedder
from support.memories import NOW, record
from support.scored_memories import entry
from support.search_backends import SharedStore
from support.store_servers import StoreAddress, start_store, stop

from memcore import errors
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.migrate import migrate_history
from memcore.models.answers import Shown
from memcore.models.execution import ChatMessage
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.retrieval.context import BlockingContextInjection, ContextInjectionStrategy
from memcore.retrieval.formatting import AWAY_NOTICE

_TEXT = "the payment queue pages at 500 messages"
_QUESTION = "when does the payment queue page?"
_THEIRS = entry("s", "deploys freeze on Fridays", relevance=0.9, created_at=NOW)
_HYBRID = (FusionStrategy.WEIGHTED, FusionStrategy.RRF)


class CutEmbedder(HashingEmbedder):
    """Does what a test says before it embeds a question: the store is then about to be asked, and has not been."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] = lambda: None

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        self.before()
        return super().embed_query(text)

    def embed_documents(self, texts: object, /) -> NDArray[np.float32]:
        return np.stack([HashingEmbedder.embed_query(self, text) for text in texts])  # type: ignore[attr-defined]  # a sequence of texts


@pytest.fixture
def server(shared_store: StoreAddress) -> StoreAddress:
    return shared_store


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[StoreAddress]:
    """A store server that the test may kill."""
    address = start_store(tmp_path / "store")
    yield address
    stop(address.process)


@pytest.fixture
def embedder() -> CutEmbedder:
    return CutEmbedder()


def _disconnected(
    server: StoreAddress, embedder: CutEmbedder, folder: Path, *, ledger_url: str | None = None
) -> Mem0Backend:
    history_url = f"sqlite:///{folder}/history.db"
    migrate_history(history_url)
    place = Mem0Config(
        url=server.url,
        api_key=SecretStr(server.api_key),
        history_url=history_url,
        ledger_url=ledger_url,
        collection=f"memtend_{uuid.uuid4().hex}",
    )
    return Mem0Backend(place, company="c", embedder=embedder, encoder=Bm25Encoder())


@asynccontextmanager
async def _filled(server: StoreAddress, embedder: CutEmbedder, folder: Path) -> AsyncGenerator[Mem0Backend]:
    backend = _disconnected(server, embedder, folder)
    await backend.connect()
    await backend.store_many([record("ada", _TEXT), record("ada", "Mara reviews before noon")])
    yield backend
    await backend.disconnect()


@pytest.fixture
async def backend(server: StoreAddress, embedder: CutEmbedder, tmp_path: Path) -> AsyncIterator[Mem0Backend]:
    async with _filled(server, embedder, tmp_path) as backend:
        yield backend


def _strategy(
    backend: Mem0Backend,
    shared: SharedStore | Mem0Backend | None = None,
    fusion: FusionStrategy = FusionStrategy.WEIGHTED,
) -> ContextInjectionStrategy:
    config = MemoryRetrievalConfig(fusion_strategy=fusion, min_relevance=0.0, standing=Shown.ANY)
    return ContextInjectionStrategy(backend=backend, config=config, shared_store=shared, clock=lambda: NOW)


def _kill(server: StoreAddress) -> None:
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait()


def _content(messages: tuple[ChatMessage, ...]) -> str:
    return "\n".join(message.content for message in messages)


def _degraded(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the sources that were done without; no text of a memory or a question may stand in any log."""
    assert _TEXT not in caplog.text
    assert _QUESTION not in caplog.text
    return [each.source for each in caplog.records if each.message == "memory.retrieval.degraded"]  # type: ignore[attr-defined]  # the event's field


@pytest.mark.parametrize("fusion", FusionStrategy)
async def test_with_everything_there_own_and_shared_memories_come(
    backend: Mem0Backend, fusion: FusionStrategy, caplog: pytest.LogCaptureFixture
) -> None:
    content = _content(
        await _strategy(backend, SharedStore((_THEIRS,)), fusion).prepare_messages("ada", _QUESTION, 500)
    )
    assert _TEXT in content
    assert "deploys freeze" in content
    assert _degraded(caplog) == []


@pytest.mark.parametrize("fusion", [FusionStrategy.LINEAR, FusionStrategy.WEIGHTED])
async def test_a_store_server_killed_in_the_middle_leaves_shared_knowledge_or_nothing(
    crashing: StoreAddress,
    embedder: CutEmbedder,
    tmp_path: Path,
    fusion: FusionStrategy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _filled(crashing, embedder, tmp_path) as backend:
        embedder.before = lambda: _kill(crashing)
        strategy = _strategy(backend, SharedStore((_THEIRS,)), fusion)
        assert "deploys freeze" in _content(await strategy.prepare_messages("ada", _QUESTION, 500))
        assert crashing.process.poll() == -signal.SIGKILL
        assert _degraded(caplog) == ["backend"]
        embedder.before = lambda: None
        assert _content(await _strategy(backend, fusion=fusion).prepare_messages("ada", _QUESTION, 500)) == AWAY_NOTICE
        assert _degraded(caplog) == ["backend", "backend"]


@pytest.mark.parametrize("fusion", _HYBRID)
@pytest.mark.parametrize("error", [errors.MemoryEmbeddingError("no"), RuntimeError("no")])
async def test_an_embedder_that_fails_leaves_the_keywords(
    backend: Mem0Backend,
    embedder: CutEmbedder,
    fusion: FusionStrategy,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise error

    embedder.before = fail
    assert _TEXT in _content(await _strategy(backend, fusion=fusion).prepare_messages("ada", _QUESTION, 500))
    assert _degraded(caplog) == ["backend"]


async def test_a_shared_store_that_fails_leaves_the_agents_own(
    backend: Mem0Backend, caplog: pytest.LogCaptureFixture
) -> None:
    shared = SharedStore(errors.MemoryConnectionError("gone"))
    assert _TEXT in _content(await _strategy(backend, shared).prepare_messages("ada", _QUESTION, 500))
    assert _degraded(caplog) == ["shared_store"]


@pytest.mark.parametrize("fusion", FusionStrategy)
async def test_the_log_of_shared_knowledge_may_go_while_the_agents_own_memories_stay(
    server: StoreAddress,
    embedder: CutEmbedder,
    sqlite_ledger: LedgerUrls,
    tmp_path: Path,
    fusion: FusionStrategy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = _disconnected(server, embedder, tmp_path, ledger_url=sqlite_ledger.ledger)
    await backend.connect()
    await backend.store_many([record("ada", _TEXT)])
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="the payment queue freezes on Fridays")
    await backend.publish("bob", request)
    strategy = _strategy(backend, backend, fusion)
    content = _content(await strategy.prepare_messages("ada", _QUESTION, 500))
    assert re.search(
        r'<memory-entry shared="semantic \d\.\d\d" date="[-\d]+" by="[^"]+">\nthe payment queue freezes on Fridays',
        content,
    )
    assert re.search(rf'<memory-entry own="semantic \d\.\d\d" date="[-\d]+">\n{_TEXT}', content)
    assert _degraded(caplog) == []
    with create_engine(sqlite_ledger.ledger).begin() as connection:
        connection.execute(text("DROP TABLE shared_heads"))
    content = _content(await strategy.prepare_messages("ada", _QUESTION, 500))
    assert _TEXT in content
    assert "<memory-entry shared=" not in content
    assert _degraded(caplog) == ["shared_store"]
    await backend.disconnect()


@pytest.mark.parametrize("fatal", [builtins.MemoryError(), ExceptionGroup("two", [OSError(), builtins.MemoryError()])])
async def test_pythons_memory_error_passes_from_an_embedder(
    backend: Mem0Backend, embedder: CutEmbedder, fatal: Exception
) -> None:
    def fail() -> None:
        raise fatal

    embedder.before = fail
    with pytest.raises(builtins.MemoryError):
        await _strategy(backend, SharedStore((_THEIRS,))).prepare_messages("ada", _QUESTION, 500)


def test_an_engine_without_a_loop_prepares_messages_too(
    server: StoreAddress, embedder: CutEmbedder, tmp_path: Path
) -> None:
    disconnected = _disconnected(server, embedder, tmp_path)
    with BlockingContextInjection(_strategy(disconnected, SharedStore((_THEIRS,))), disconnected) as memories:
        assert "deploys freeze" in _content(memories.prepare_messages("ada", _QUESTION, 500))
    with pytest.raises(RuntimeError, match="enter the object first"):
        memories.prepare_messages("ada", _QUESTION, 500)
