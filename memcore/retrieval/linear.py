"""One ranked list: relevance and recency, added by weight."""

from collections.abc import Sequence
from datetime import datetime

from memcore.config.fusion import FusionStrategy
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.models import MemoryEntry
from memcore.retrieval.recency import compute_recency_score
from memcore.retrieval.scored_memory import ScoredMemory, best_first


def compute_combined_score(relevance: float, recency: float, relevance_weight: float, recency_weight: float) -> float:
    """Return the weighted sum, held to 0.0 to 1.0 against what floating point adds.

    Args:
        relevance: 0.0 to 1.0.
        recency: 0.0 to 1.0.
        relevance_weight: with recency_weight it makes 1.0.
        recency_weight: see relevance_weight.
    """
    return min(1.0, max(0.0, relevance_weight * relevance + recency_weight * recency))


def rank_memories(
    entries: Sequence[MemoryEntry],
    *,
    config: MemoryRetrievalConfig,
    now: datetime,
    shared_entries: Sequence[MemoryEntry] = (),
    limit: int | None = None,
) -> tuple[ScoredMemory, ...]:
    """Return the memories that reach ``config.min_relevance``, best first.

    Args:
        entries: the agent's own; each is raised by ``config.personal_boost``, up to 1.0.
        config: weights, decay, threshold.
        now: the time from which ages count.
        shared_entries: shared knowledge, not raised.
        limit: most memories returned; ``config.max_memories`` when left out. A pool for re-ranking needs more.
    """
    boosts = ((False, config.personal_boost, entries), (True, 0.0, shared_entries))
    scored = [
        with_recency(entry, min(1.0, _relevance(entry, config) + boost), config=config, now=now, is_shared=is_shared)
        for is_shared, boost, found in boosts
        for entry in found
    ]
    return best_of(scored, config=config, limit=limit)


def with_recency(
    entry: MemoryEntry,
    relevance: float,
    *,
    config: MemoryRetrievalConfig,
    now: datetime,
    is_shared: bool,
    strategy: FusionStrategy = FusionStrategy.LINEAR,
) -> ScoredMemory:
    """Return the memory with its recency, and the weighted sum of both."""
    recency = compute_recency_score(entry.created_at, now, config.recency_decay_rate)
    return ScoredMemory(
        entry=entry,
        relevance_score=relevance,
        recency_score=recency,
        combined_score=compute_combined_score(relevance, recency, config.relevance_weight, config.recency_weight),
        is_shared=is_shared,
        scoring_strategy=strategy,
    )


def best_of(
    scored: Sequence[ScoredMemory], *, config: MemoryRetrievalConfig, limit: int | None
) -> tuple[ScoredMemory, ...]:
    """Return those that reach the threshold, best first, as many as wanted."""
    kept = sorted((each for each in scored if each.combined_score >= config.min_relevance), key=best_first)
    return tuple(kept[: config.max_memories if limit is None else limit])


def _relevance(entry: MemoryEntry, config: MemoryRetrievalConfig) -> float:
    return config.default_relevance if entry.relevance_score is None else entry.relevance_score
