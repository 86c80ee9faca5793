"""The place of a re-ranker that reads question and memories together."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memcore.retrieval.scored_memory import ScoredMemory


@runtime_checkable
class QuerySpecificReranker(Protocol):
    """Put memories in the order in which they answer a question; used when query_specific_rerank_enabled is true."""

    async def rerank(self, query_text: str, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return the same memories in a new order; anything else, and any error, keeps the old one."""
        ...


def is_permutation(given: Sequence[ScoredMemory], reranked: Sequence[ScoredMemory]) -> bool:
    """Return whether both hold the same memories."""
    return sorted(each.entry.id for each in given) == sorted(each.entry.id for each in reranked)


def with_scores_of_ranks(reranked: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Give each place its score: the best combined score to the first, the next to the second, and so on.

    What comes after, re-ranking for diversity above all, follows combined scores: with the old ones it would undo the
    new order.
    """
    scores = sorted((each.combined_score for each in reranked), reverse=True)
    return tuple(
        each.model_copy(update={"combined_score": score}) for each, score in zip(reranked, scores, strict=True)
    )
