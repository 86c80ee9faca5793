"""Vectors and keywords, personal and shared, as one list: the weighted sum of scores, then boost and recency."""

from datetime import datetime

from memcore.backends.fusion import weighted_legs
from memcore.backends.legs import Legs
from memcore.config.fusion import FusionStrategy
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.retrieval.linear import best_of, with_recency
from memcore.retrieval.scored_memory import ScoredMemory


def fuse_weighted(
    legs: Legs, *, config: MemoryRetrievalConfig, dense_weight: float, now: datetime, limit: int | None = None
) -> tuple[ScoredMemory, ...]:
    """Return the memories that reach ``config.min_relevance``, best first.

    Personal and shared memories are brought to one scale together, so that the best of either can be the best of all;
    then the agent's own are raised by ``personal_boost`` and all are scaled back to 0 to 1, and recency counts with its
    weight. A cap at 1, as ``linear`` has it, would make one of all that come near the best, which has 1 here.

    Args:
        legs: raw scores: cosine similarities and BM25, neither cut off.
        config: weights, decay, threshold.
        dense_weight: share of the vectors.
        now: the time from which ages count.
        limit: most memories returned; ``config.max_memories`` when left out.
    """
    shared = {hit.entry.id for hit in (*legs.shared_dense, *legs.shared_sparse)}
    entries = {hit.entry.id: hit.entry for hit in (*legs.shared_sparse, *legs.shared_dense, *legs.sparse, *legs.dense)}
    relevance = weighted_legs(legs, dense_weight=dense_weight)
    boost = config.personal_boost
    scored = [
        with_recency(
            entries[key],
            (score if key in shared else score + boost) / (1.0 + boost),
            config=config,
            now=now,
            is_shared=key in shared,
            strategy=FusionStrategy.WEIGHTED,
        )
        for key, score in relevance.items()
    ]
    return best_of(scored, config=config, limit=limit)
