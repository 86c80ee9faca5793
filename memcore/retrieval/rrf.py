"""Several ranked lists as one, by the places that a memory has in them (reciprocal rank fusion).

Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods, 2009.
"""

from collections.abc import Collection, Sequence

from memcore.config.fusion import FusionStrategy
from memcore.models import MemoryEntry
from memcore.retrieval.scored_memory import ScoredMemory

#: The reference's smoothing constant: the tenth place of a list is still worth 87 % of the first.
DEFAULT_K = 60

#: The reference's length of the result.
DEFAULT_MAX_RESULTS = 20


def fuse_ranked_lists(
    ranked_lists: Sequence[Sequence[MemoryEntry]],
    *,
    k: int = DEFAULT_K,
    max_results: int = DEFAULT_MAX_RESULTS,
    shared_ids: Collection[str] = frozenset(),
    min_relevance: float = 0.0,
) -> tuple[ScoredMemory, ...]:
    """Return the memories by the sum of ``1 / (k + rank)`` over the lists they stand in, best first.

    Ranks count from 1, and a memory counts once in a list, at its best place. ``combined_score`` is the sum, spread
    over 0.0 to 1.0 between the worst and the best (all 1.0 when they are equal).

    Args:
        ranked_lists: each best first; of a memory in several lists the first object is kept.
        k: smoothing constant; a smaller one makes more of the difference between places.
        max_results: most memories returned.
        shared_ids: which of them are shared knowledge.
        min_relevance: drop those whose sum is less than this share of the best one's, 0.0 to 1.0. The share is of the
            sum itself: on the spread scale the worst is always 0.0 and would always go, however good it is.

    Raises:
        ValueError: k or max_results is below 1.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    if max_results < 1:
        raise ValueError(f"max_results must be 1 or more, not {max_results}")
    entries: dict[str, MemoryEntry] = {}
    sums: dict[str, float] = {}
    for ranked in ranked_lists:
        seen: set[str] = set()
        for rank, entry in enumerate(ranked, start=1):
            if entry.id in seen:
                continue
            seen.add(entry.id)
            entries.setdefault(entry.id, entry)
            sums[entry.id] = sums.get(entry.id, 0.0) + 1.0 / (k + rank)
    if not sums:
        return ()
    low, high = min(sums.values()), max(sums.values())
    kept = [key for key, total in sums.items() if total >= min_relevance * high]
    kept.sort(key=lambda key: (-sums[key], -entries[key].created_at.timestamp(), key))
    return tuple(
        ScoredMemory(
            entry=entries[key],
            relevance_score=entries[key].relevance_score or 0.0,
            recency_score=0.0,
            combined_score=1.0 if high == low else (sums[key] - low) / (high - low),
            is_shared=key in shared_ids,
            scoring_strategy=FusionStrategy.RRF,
        )
        for key in kept[:max_results]
    )
