"""Search latency: the backend's hybrid search, embedding included, beside the bare queries that it is made of."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from benchmarks.figure import Figure
from benchmarks.stack import BenchStack
from benchmarks.texts import Texts, questions
from qdrant_client import QdrantClient
from qdrant_client.models import FieldCondition, Filter, MatchValue, QueryRequest, SparseVector

from memcore.backends.base import fresh_record
from memcore.clock import utc_now
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.models.memory import MemoryQuery

#: Whose memories are searched: the store filters by agent before it compares.
_AGENT = "agent-0"

#: Memories written in one call while the collection is filled.
_FILL = 1_024

#: Results asked for, as an engine asks.
_RESULTS = 10

#: Candidates of each list in a hybrid search; the backend asks for as many.
_CANDIDATES = 40


class Searching:
    """One agent with a given number of memories, asked by everybody in turn."""

    def __init__(
        self, stack: BenchStack, qdrant: QdrantClient, embedder: Embedder, encoder: Bm25Encoder, texts: Texts
    ) -> None:
        self._stack = stack
        self._qdrant = qdrant
        self._embedder = embedder
        self._encoder = encoder
        self._texts = texts
        self._collection = "memtend_bench-search"
        self._filter = Filter(must=[FieldCondition(key="agent_id", match=MatchValue(value=_AGENT))])

    def run(self, sizes: Sequence[int], *, rounds: int) -> list[Figure]:
        """Fill to each size in turn and ask every question that many times."""
        figures: list[Figure] = []
        filled = 0
        with self._stack.backend("bench-search") as (backend, runner):
            memories = self._texts.requests(max(sizes), mark="search")
            for size in sizes:
                for start in range(filled, size, _FILL):
                    records = [
                        fresh_record(_AGENT, request, company="bench-search", now=utc_now())
                        for request in memories[start : min(start + _FILL, size)]
                    ]
                    runner.run(backend.store_many(records))
                filled = size

                def hybrid(text: str) -> int:
                    found = runner.run(backend.retrieve(_AGENT, MemoryQuery(text=text, limit=_RESULTS)))
                    return len(found)

                contenders = {
                    "backend.retrieve, hybrid": hybrid,
                    "raw: embed + one dense query": self._dense,
                    "raw: embed + dense and sparse in one batch": self._both,
                }
                figures += asked(contenders, f"search, {size:,} memories", rounds)
        return figures

    def _dense(self, text: str) -> int:
        answer = self._qdrant.query_points(
            self._collection,
            query=self._embedder.embed_query(text).tolist(),
            query_filter=self._filter,
            limit=_RESULTS,
            with_payload=True,
        )
        return len(answer.points)

    def _both(self, text: str) -> int:
        words = self._encoder.encode_query(text)
        sparse = SparseVector(indices=list(words.indices), values=list(words.values))
        dense = self._embedder.embed_query(text).tolist()
        common = {"filter": self._filter, "limit": _CANDIDATES, "with_payload": True}
        queries = [QueryRequest(query=dense, **common), QueryRequest(query=sparse, using="bm25", **common)]
        return len(self._qdrant.query_batch_points(self._collection, queries)[0].points)


def asked(contenders: Mapping[str, Callable[[str], int]], group: str, rounds: int) -> list[Figure]:
    """Ask every contender every question so many times, in turn, and return how long each took."""
    walls: dict[str, list[float]] = {name: [] for name in contenders}
    cpu = dict.fromkeys(contenders, 0.0)
    texts = questions()
    for ask in contenders.values():
        ask(texts[0])
    for _ in range(rounds):
        for text in texts:
            # In turn, so that whatever else the machine does meets all alike.
            for name, ask in contenders.items():
                cpu_before, before = time.process_time(), time.perf_counter()
                found = ask(text)
                walls[name].append((time.perf_counter() - before) * 1e3)
                cpu[name] += (time.process_time() - cpu_before) * 1e3
                if not found:
                    raise AssertionError(f"{name} found nothing for {text!r}")
    return [
        Figure(
            group=group,
            name=f"{name}, p{quantile}",
            unit="ms",
            samples=[float(np.percentile(part, quantile)) for part in np.array_split(walls[name], 5)],
            cpu_ms=cpu[name] / len(walls[name]) if quantile == 50 else None,
            note="CPU: this process only" if quantile == 50 else "",
        )
        for name in contenders
        for quantile in (50, 95)
    ]
