"""Search by meaning and by words, in one round trip to the store."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client.models import QueryRequest, ScoredPoint

from memcore.backends.mem0.collection import SPARSE
from memcore.backends.mem0.fusion import weighted
from memcore.backends.mem0.points import to_record, to_sparse
from memcore.backends.mem0.where import of_query
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.embedding.relevance import relevance_of
from memcore.models import MemoryEntry, MemoryQuery

#: How many times the wanted number each list is asked for: a memory that is good at both can be tenth in each.
_CANDIDATES_PER_RESULT = 4

#: Fewest candidates of a list: short lists make the spread of their scores a matter of chance.
_MIN_CANDIDATES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """How a text query is answered.

    Attributes:
        is_hybrid: vectors and keywords; False asks the vectors alone.
        dense_weight: share of the vectors in a hybrid score, 0 to 1; 0.4 measured best (STACK, Retrieval quality).
    """

    is_hybrid: bool = True
    dense_weight: float = 0.4


class Search:
    """Answer text queries over one agent's memories; expired ones are never found."""

    def __init__(
        self, client: QdrantClient, collection: str, *, embedder: Embedder, encoder: Bm25Encoder, plan: SearchPlan
    ) -> None:
        self._client = client
        self._collection = collection
        self._embedder = embedder
        self._encoder = encoder
        self._plan = plan

    def by_text(self, agent_id: str, query: MemoryQuery, text: str, *, now: datetime) -> tuple[MemoryEntry, ...]:
        """Return the best entries first; relevance is the weighted score, or of vectors alone their similarity."""
        requests = {
            name: request
            for name, request in (
                ("dense", self._dense(agent_id, query, text, now)),
                ("sparse", self._sparse(agent_id, query, text, now) if self._plan.is_hybrid else None),
            )
            if request is not None
        }
        if not requests:
            return ()
        answers = self._client.query_batch_points(self._collection, list(requests.values()))
        hits = {name: answer.points for name, answer in zip(requests, answers, strict=True)}
        dense, sparse = hits.get("dense", []), hits.get("sparse", [])
        if self._plan.is_hybrid:
            relevance = weighted(_scores(dense), _scores(sparse), dense_weight=self._plan.dense_weight)
        else:
            relevance = {key: min(1.0, max(0.0, score)) for key, score in _scores(dense).items()}
        return _best(query, [*dense, *sparse], relevance)

    def by_words(self, agent_id: str, query: MemoryQuery, text: str, *, now: datetime) -> tuple[MemoryEntry, ...]:
        """Return the best keyword hits first; relevance is s / (1 + s) of the BM25 score s."""
        request = self._sparse(agent_id, query, text, now)
        if request is None:
            return ()
        points = self._client.query_batch_points(self._collection, [request])[0].points
        return _best(query, points, {key: relevance_of(max(0.0, s)) for key, s in _scores(points).items()})

    def _dense(self, agent_id: str, query: MemoryQuery, text: str, now: datetime) -> QueryRequest | None:
        vector = self._embedder.embed_query(text)
        if not np.any(vector):
            # A zero vector is as near to everything as to nothing: its list would be noise.
            return None
        return QueryRequest(
            query=vector.tolist(),
            filter=of_query(agent_id, query, now=now),
            limit=self._candidates(query),
            with_payload=True,
        )

    def _sparse(self, agent_id: str, query: MemoryQuery, text: str, now: datetime) -> QueryRequest | None:
        vector = self._encoder.encode_query(text)
        if not vector:
            return None
        return QueryRequest(
            query=to_sparse(vector),
            using=SPARSE,
            filter=of_query(agent_id, query, now=now),
            limit=self._candidates(query),
            with_payload=True,
        )

    def _candidates(self, query: MemoryQuery) -> int:
        return max(_MIN_CANDIDATES, query.limit * _CANDIDATES_PER_RESULT)


def _scores(points: Iterable[ScoredPoint]) -> dict[str, float]:
    return {str(point.id): point.score for point in points}


def _best(query: MemoryQuery, points: Iterable[ScoredPoint], relevance: dict[str, float]) -> tuple[MemoryEntry, ...]:
    by_id = {str(point.id): point for point in points}
    found: list[MemoryEntry] = []
    for key in sorted(by_id, key=relevance.__getitem__, reverse=True):
        score = relevance[key]
        # Reading a payload is dear, and most candidates are read for nothing; equals of the last one may still win.
        is_full = len(found) >= query.limit and score < (found[-1].relevance_score or 0.0)
        if is_full or score < query.min_relevance:
            break
        record = to_record(by_id[key], relevance=score)
        if record is not None:
            found.append(record.entry)
    found.sort(key=lambda entry: (-(entry.relevance_score or 0.0), -entry.created_at.timestamp(), entry.id))
    return tuple(found[: query.limit])
