"""Weighted fusion of two ranked lists: the sum of their scores, each as a share of its list's best.

The mem0 backend and the retrieval package fuse with this function and no other.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from memcore.backends.current import newer_first
from memcore.backends.evidence import DEFAULT_NOISE, MOST_JUDGED, Candidate, leading_weight, weight_of_time
from memcore.backends.neighbours import Remark, among_neighbours
from memcore.backends.when import AskedRange, in_time, subject_of
from memcore.embedding.protocol import EmbedderKind
from memcore.models.memory import MemoryEntry, MemoryQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory in a ranked list.

    Attributes:
        entry: the memory; its ``relevance_score`` is None, for a list alone does not say how relevant it is.
        score: the cosine similarity (-1 to 1) in a dense list, BM25 (above 0) in a sparse one.
        cosine: known of a sparse hit too, so that a fusion need not guess it; None when the question has no vector.
        bm25: of a dense hit too where the backend asks for it; None where it is not known.
        summary_id: of an archived memory, the summary in the store that replaced it.
        remark: where it stands in its session; None where that is not known.
    """

    entry: MemoryEntry
    score: float
    cosine: float | None = None
    bm25: float | None = None
    summary_id: str | None = None
    remark: Remark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedLists:
    """The ranked lists of a search, best first: the agent's own memories and shared ones, by meaning and by keywords.

    The archived lists have the agent's archived memories that a summary in the store replaced.
    The keywords' lists are empty without words to search, or with ``retrieval.sparse`` off. ``dense_weight`` and
    ``noise``, the cosine of unrelated texts, go with the embedder that these lists were made with; None leaves the
    weight to the backend's. ``asked`` is the range of time that the question names, of which the lists have the best,
    and ``question`` the text that was asked, with spelling mistakes corrected; None where the backend corrects none.
    """

    dense: tuple[Hit, ...] = ()
    sparse: tuple[Hit, ...] = ()
    shared_dense: tuple[Hit, ...] = ()
    shared_sparse: tuple[Hit, ...] = ()
    archived_dense: tuple[Hit, ...] = ()
    archived_sparse: tuple[Hit, ...] = ()
    dense_weight: float | None = None
    noise: float = DEFAULT_NOISE
    asked: AskedRange | None = None
    question: str | None = None


@runtime_checkable
class HybridBackend(Protocol):
    """A backend that searches by meaning and by keywords in one round trip."""

    @property
    def dense_weight(self) -> float:
        """The share of the dense lists in a weighted fusion: the policy's, or else the embedder's own default."""
        ...

    async def retrieve_rankings(
        self,
        agent_id: str,
        query: MemoryQuery,
        *,
        include_shared: bool = False,
        exclude_agents: Collection[str] = (),
        include_archived: bool = False,
    ) -> RankedLists:
        """Return every list of a text query; ``query.min_relevance`` does not cut them, for they are not fused yet.

        Archived memories are asked for where the backend is an ``ArchiveIndex`` too.

        Each list is as long as the query's limit and at least 50, if there are so many. A query without a text has
        empty lists. The shared lists are without what the agent itself and ``exclude_agents`` published.

        Raises MemoryRetrievalError, MemoryConnectionError.
        """
        ...


#: Share of the vectors where the policy names none. Token vectors added up (static) rank worse than BM25, a
#: transformer's rank about as well; both measured on the development split (docs/benchmarks/2026-11.md).
_STATIC_WEIGHT, _TRANSFORMER_WEIGHT = 0.4, 0.5


def default_dense_weight(kind: EmbedderKind) -> float:
    """Return the share of the vectors that measured best for a kind of embedder."""
    return _STATIC_WEIGHT if kind is EmbedderKind.STATIC else _TRANSFORMER_WEIGHT


Id = TypeVar("Id", bound=Hashable)


def weighted_rankings(rankings: RankedLists, *, dense_weight: float, question: str = "") -> dict[str, float]:
    """Return the relevance of every memory in any of the lists, personal and shared on one scale; see ``weighted``.

    Neighbours and names count too (memcore.backends.neighbours), the time that is asked for, and the newer of two that
    say nearly the same.
    """
    dense = {hit.entry.id: hit.score for hit in (*rankings.dense, *rankings.shared_dense)}
    sparse = {hit.entry.id: hit.score for hit in (*rankings.sparse, *rankings.shared_sparse)}
    for hit in (*rankings.dense, *rankings.shared_dense, *rankings.sparse, *rankings.shared_sparse):
        if hit.cosine is not None:
            dense.setdefault(hit.entry.id, hit.cosine)
        if hit.bm25 is not None:
            sparse.setdefault(hit.entry.id, hit.bm25)
    every = (*rankings.dense, *rankings.shared_dense, *rankings.sparse, *rankings.shared_sparse)
    remarks = {hit.entry.id: hit.remark or Remark(text=hit.entry.content) for hit in every}
    entries = {hit.entry.id: hit.entry for hit in every}

    def judged(scores: Mapping[str, float]) -> list[Candidate]:
        first = sorted(scores, key=scores.__getitem__, reverse=True)[:MOST_JUDGED]
        return [Candidate.of(entries[key], dense.get(key)) for key in first]

    subject = subject_of(question, rankings.asked)
    scores = led(subject, dense, sparse, judged, dense_weight=dense_weight)
    scores = among_neighbours(subject, scores, remarks)
    if (asked := rankings.asked) is not None:
        nearness = {key: asked.nearness(entry) for key, entry in entries.items()}
        weight = weight_of_time(question, asked, judged(scores), noise=rankings.noise)
        scores = in_time(scores, nearness, weight, own_gain=asked.gain, soon_gain=asked.soon_gain)
    return newer_first(question, scores, entries, asked=asked)


def led(
    question: str,
    dense: Mapping[Id, float],
    sparse: Mapping[Id, float],
    judged: Callable[[Mapping[Id, float]], Sequence[Candidate]],
    *,
    dense_weight: float,
) -> dict[Id, float]:
    """Return the relevance of ``weighted``, with meaning in the lead where the best by it have few of the words.

    ``judged`` returns the first memories of a ranking as candidates.
    """
    scores = weighted(dense, sparse, dense_weight=dense_weight)
    weight = leading_weight(question, judged(scores), dense_weight=dense_weight)
    return scores if weight == dense_weight else weighted(dense, sparse, dense_weight=weight)


def weighted(dense: Mapping[Id, float], sparse: Mapping[Id, float], *, dense_weight: float) -> dict[Id, float]:
    """Return a relevance of 0 to 1 for every id in either list; an id absent from a list gets nothing from it.

    The sum is ``w * cosine / best cosine + (1 - w) * BM25 / best BM25``; what is below 0 counts as 0. Spreading the
    cosines between the list's worst and best instead loses 0.02 NDCG@10: the worst of a list says how long the list is,
    not how near the memory. Give the true cosine of what only keywords found, where it is known
    (docs/benchmarks/2026-11.md). A list that is empty, or holds nothing above 0, leaves its share of w
    (``dense_weight``) to the other, which then speaks alone.
    """
    near, worded = _scaled(dense), _scaled(sparse)
    share = 0.0 if not near else 1.0 if not worded else dense_weight
    fused = {
        key: share * near.get(key, 0.0) + (1.0 - share) * worded.get(key, 0.0)
        for key in (*dense, *(key for key in sparse if key not in dense))
    }
    # 0.4 + 0.6 may come out a hair above 1.
    return {key: min(1.0, score) for key, score in fused.items()}


def best_first(entries: Iterable[MemoryEntry], limit: int) -> tuple[MemoryEntry, ...]:
    """Return so many of the entries by relevance, those without one last and newest first, ties by id."""
    ranked = sorted(
        entries, key=lambda each: (-(each.relevance_score or 0.0), -each.last_stated_at.timestamp(), each.id)
    )
    return tuple(ranked[:limit])


def _scaled(scores: Mapping[Id, float]) -> dict[Id, float]:
    best = max(scores.values(), default=0.0)
    return {key: max(0.0, score) / best for key, score in scores.items()} if best > 0.0 else {}
