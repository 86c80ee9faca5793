"""Search by meaning and by words, in one round trip to the store.

Expired memories never count against a list's length. The store could leave them out, but looks at every memory's expiry
for it: two thirds more time for an agent of 20,000. So it is asked without, what has expired is dropped here, and only
when a list may have lost places by that is the store asked again, with the condition.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client.models import Filter, QueryRequest, QueryRequestBatch, ScoredPoint

from memcore.backends.mem0.collection import SPARSE
from memcore.backends.mem0.fusion import weighted
from memcore.backends.mem0.points import to_record, to_sparse
from memcore.backends.mem0.where import has_expired, of_query
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.embedding.relevance import relevance_of
from memcore.models import MemoryEntry, MemoryQuery

#: How many times the wanted number each list is asked for: a memory that is good at both can be tenth in each.
_CANDIDATES_PER_RESULT = 4

#: Fewest candidates of a list: short lists make the spread of their scores a matter of chance.
_MIN_CANDIDATES = 40

#: How long an agent's searches name the condition from the start once one had to be repeated for it: the next
#: maintenance removes what has expired, and until then nearly every search would be made twice.
_WARY = timedelta(minutes=5)

#: Agents about whom that is remembered, a megabyte of ids.
_MOST_WARY_OF = 10_000


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
        self._wary_until: dict[str, datetime] = {}

    def by_text(self, agent_id: str, query: MemoryQuery, text: str, *, now: datetime) -> tuple[MemoryEntry, ...]:
        """Return the best entries first; relevance is the weighted score, or of vectors alone their similarity."""
        lists = {
            "dense": self._dense(query, text),
            "sparse": self._sparse(query, text) if self._plan.is_hybrid else None,
        }
        hits = self._hits(agent_id, query, {name: one for name, one in lists.items() if one is not None}, now=now)
        dense, sparse = hits.get("dense", []), hits.get("sparse", [])
        if self._plan.is_hybrid:
            relevance = weighted(_scores(dense), _scores(sparse), dense_weight=self._plan.dense_weight)
        else:
            relevance = {key: min(1.0, max(0.0, score)) for key, score in _scores(dense).items()}
        return _best(query, [*dense, *sparse], relevance)

    def by_words(self, agent_id: str, query: MemoryQuery, text: str, *, now: datetime) -> tuple[MemoryEntry, ...]:
        """Return the best keyword hits first; relevance is s / (1 + s) of the BM25 score s."""
        request = self._sparse(query, text)
        if request is None:
            return ()
        points = self._hits(agent_id, query, {"sparse": request}, now=now)["sparse"]
        return _best(query, points, {key: relevance_of(max(0.0, s)) for key, s in _scores(points).items()})

    def _hits(
        self, agent_id: str, query: MemoryQuery, lists: Mapping[str, QueryRequest], *, now: datetime
    ) -> dict[str, list[ScoredPoint]]:
        if not lists:
            return {}
        if self._wary_until.get(agent_id, now) <= now:
            hits = self._asked(lists, of_query(agent_id, query, now=None))
            live = {name: [one for one in points if not has_expired(one.payload, now)] for name, points in hits.items()}
            if all(len(live[name]) == len(hits[name]) or len(hits[name]) < self._candidates(query) for name in lists):
                return live
            if len(self._wary_until) >= _MOST_WARY_OF:
                self._wary_until.clear()
            self._wary_until[agent_id] = now + _WARY
        return self._asked(lists, of_query(agent_id, query, now=now))

    def _asked(self, lists: Mapping[str, QueryRequest], narrowed: Filter) -> dict[str, list[ScoredPoint]]:
        searches = [one.model_copy(update={"filter": narrowed}) for one in lists.values()]
        # The client's own REST call: its outer one first copies every request, numbers and all, to look for texts.
        answers = self._client.http.search_api.query_batch_points(
            self._collection, query_request_batch=QueryRequestBatch(searches=searches)
        ).result
        return {name: answer.points for name, answer in zip(lists, answers or [], strict=True)}

    def _dense(self, query: MemoryQuery, text: str) -> QueryRequest | None:
        vector = self._embedder.embed_query(text)
        if not np.any(vector):
            # A zero vector is as near to everything as to nothing: its list would be noise.
            return None
        return QueryRequest(
            query=vector.tolist(),
            limit=self._candidates(query),
            with_payload=True,
        )

    def _sparse(self, query: MemoryQuery, text: str) -> QueryRequest | None:
        vector = self._encoder.encode_query(text)
        if not vector:
            return None
        return QueryRequest(
            query=to_sparse(vector),
            using=SPARSE,
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
