"""A reindex in a test: two embedders whose vectors are told apart, and processes that crash."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import mmh3
import numpy as np
import pytest
from numpy.typing import NDArray

from memcore.backends.fusion import default_dense_weight
from memcore.backends.mem0 import points as batch
from memcore.backends.mem0 import search
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config, PointerConfig
from memcore.backends.mem0.reindex_target import ReindexTarget
from memcore.backends.mem0.search import SearchPlan
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder, Tokenizer
from memcore.embedding.factory import create_embedder
from memcore.embedding.protocol import Embedder, EmbedderKind
from memcore.embedding.selection import EmbedderChoice
from memcore.jobs import ProgressCallback, Step, no_progress
from memcore.ledger.collections import CollectionPointer
from memcore.ledger.ledger import Ledger
from memcore.reindex import ReindexPlanning, ReindexService
from support.memories import NOW

#: Length of the vectors of both embedders.
DIMS = 64


#: How long a slice lasts that copies one page: between its beginning and the page the clock is looked at once.
ONE_PAGE = timedelta(milliseconds=150)


class SidedEmbedder:
    """Count words at even places or at odd ones, so that a vector shows its embedder."""

    def __init__(self, side: str) -> None:
        self._side = side

    @property
    def name(self) -> str:
        return self._side

    @property
    def kind(self) -> EmbedderKind:
        return EmbedderKind.STATIC

    @property
    def dims(self) -> int:
        return DIMS

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.zeros((0, DIMS), np.float32)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector = np.zeros(DIMS, dtype=np.float32)
        for word in Tokenizer.words(text):
            vector[2 * (mmh3.hash(word, 0, signed=False) % (DIMS // 2)) + (self._side == "odd")] += 1.0
        if length := np.linalg.norm(vector):
            vector /= length
        return vector


def side_of(vector: Any) -> str:
    """Return which embedder made a vector."""
    values = np.asarray(vector)
    even, odd = bool(np.any(values[0::2])), bool(np.any(values[1::2]))
    assert even != odd, "a vector of both embedders, or of none"
    return "even" if even else "odd"


@dataclass
class TickingClock:
    """A clock that goes on a little with every look, so that what waits for time comes to its end."""

    now: datetime = field(default=NOW)
    step: timedelta = timedelta(milliseconds=100)

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()

    async def rest(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class KilledError(BaseException):
    """The process was killed."""


class CrashingProxy:
    """Wraps an object and crashes before or after its n-th call."""

    def __init__(self, inner: object, crash_point: "CrashPoint") -> None:
        self._inner = inner
        self._crash_point = crash_point

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return CrashingProxy(found, self._crash_point)
        if asyncio.iscoroutinefunction(found):

            async def later(*args: Any, **kwargs: Any) -> Any:
                self._crash_point.before()
                answer = await found(*args, **kwargs)
                self._crash_point.behind()
                return answer

            return later

        def at_once(*args: Any, **kwargs: Any) -> Any:
            self._crash_point.before()
            answer = found(*args, **kwargs)
            self._crash_point.behind()
            return answer

        return at_once


@dataclass
class CrashPoint:
    """When a process dies: at this call, before it is made or behind it; None for never."""

    at: int | None = None
    is_behind: bool = False
    seen: int = 0

    def before(self) -> None:
        self.seen += 1
        if self.seen == self.at and not self.is_behind:
            raise KilledError

    def behind(self) -> None:
        if self.seen == self.at and self.is_behind:
            raise KilledError


class ReindexWorld:
    """One company on a store, seen by as many processes as a test likes."""

    def __init__(self, place: Mem0Config, urls: LedgerUrls, *, company: str = "c") -> None:
        self.place = place.model_copy(update={"ledger_url": urls.ledger})
        self.company = company
        self.clock = TickingClock()
        self.ledger = Ledger.open(urls, clock=self.clock)
        self.urls = urls
        self.reindex_target = ReindexTarget(self.place, followed=self.followed("even"))

    def followed(self, side: str) -> PointerConfig:
        return PointerConfig(
            choice=EmbedderChoice(provider=side),
            load=self.load,
        )

    @staticmethod
    def load(wanted: EmbedderChoice) -> Embedder:
        """Load one of the two, or a checkpoint by its folder."""
        return SidedEmbedder(wanted.provider) if wanted.model is None else create_embedder(wanted)

    def backend(self, side: str = "even") -> Mem0Backend:
        """A process that is configured with one of the embedders."""

        def plan_of(kind: EmbedderKind, weight: float | None) -> SearchPlan:
            return SearchPlan(dense_weight=default_dense_weight(kind) if weight is None else weight)

        return Mem0Backend(
            self.place,
            company=self.company,
            embedder=SidedEmbedder(side),
            encoder=Bm25Encoder(),
            plan_of=plan_of,
            following=self.followed(side),
            clock=self.clock,
        )

    @property
    def planning(self) -> ReindexPlanning:
        return ReindexPlanning(self.reindex_target, self.ledger, company=self.company)

    async def begin(
        self, side: str = "odd", *, dense_weight: float | None = None, again: bool = False
    ) -> CollectionPointer:
        return await self.planning.begin(
            SidedEmbedder(side),
            choice=EmbedderChoice(provider=side),
            encoder=Bm25Encoder(),
            text_template="{content}",
            dense_weight=dense_weight,
            again=again,
        )

    async def slice(
        self,
        *,
        lasts: timedelta = timedelta(minutes=5),
        crash_point: CrashPoint | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> Step | None:
        """Run a slice; None when its process died over it."""
        ledger: Any = self.ledger if crash_point is None else CrashingProxy(self.ledger, crash_point)
        reindex_target: Any = (
            self.reindex_target if crash_point is None else CrashingProxy(self.reindex_target, crash_point)
        )
        rest: Callable[[float], Awaitable[None]] = self.clock.rest
        service = ReindexService(
            reindex_target,
            ledger,
            company=self.company,
            clock=self.clock,
            rest=rest,
            monotonic=self.clock.monotonic,
        )
        try:
            return await service.run(lasts=lasts, on_progress=on_progress)
        except KilledError:
            return None

    async def finish(self) -> None:
        """Let worker after worker carry the reindex on until it has ended."""
        for _ in range(100):
            reindex = self.ledger.reindexes.last(self.company)
            if reindex is None or reindex.finished_at is not None:
                return
            await self.slice()
            # Longer than a dead worker's lease, and than writes may be stopped.
            self.clock.now += timedelta(seconds=60)
        pytest.fail("the reindex does not end")

    def points(self, collection: str) -> dict[str, tuple[dict[str, Any], Any]]:
        """Every point of a collection, with payload and vector."""
        client = self.reindex_target._client  # a look past everything that is under test
        rows, _ = client.scroll(collection, limit=10_000, with_payload=True, with_vectors=True)
        return {str(row.id): (row.payload or {}, row.vector) for row in rows}

    @property
    def pointer(self) -> CollectionPointer:
        found = self.ledger.collection_pointers.get(self.company)
        assert found is not None
        return found

    async def close(self) -> None:
        await self.reindex_target.close()
        self.ledger.close()


@contextmanager
def watched_queries(monkeypatch: pytest.MonkeyPatch, prompt_prefixes: Callable[[str], str]) -> Iterator[list[str]]:
    """Check that each vector that is searched with goes to a collection of its own embedder; yield what was asked."""
    asked: list[str] = []

    def watching(client: Any, collection: str, queries: Sequence[dict[str, Any]]) -> Any:
        for query in queries:
            if isinstance(query["query"], np.ndarray):
                assert side_of(query["query"]) == prompt_prefixes(collection)
                asked.append(collection)
        return batch.ask(client, collection, queries)

    with monkeypatch.context() as patched:
        patched.setattr(search, "ask", watching)
        yield asked
