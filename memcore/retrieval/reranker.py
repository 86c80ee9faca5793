"""The place of a re-ranker that reads question and memories together."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memcore.errors import MemoryRetrievalError
from memcore.retrieval.scored_memory import ScoredMemory


@runtime_checkable
class QuerySpecificReranker(Protocol):
    """Put memories in the order in which they answer a question; used when query_specific_rerank_enabled is true."""

    async def rerank(self, query_text: str, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return the same memories in a new order; anything else, and any error, keeps the old one."""
        ...


def reordered(given: Sequence[ScoredMemory], reranked: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the memories given in the order of the re-ranked ones, each place with its score.

    The best combined score goes to the first place, the next to the second, and so on: what comes after, re-ranking
    for diversity above all, follows combined scores, and with the old ones it would undo the new order.

    Raises:
        MemoryRetrievalError: the re-ranked are not the same memories.
    """
    by_id = {each.entry.id: each for each in given}
    order = [each.entry.id for each in reranked]
    if sorted(order) != sorted(by_id):
        raise MemoryRetrievalError("the re-ranker returned other memories than it was given")
    scores = sorted((each.combined_score for each in given), reverse=True)
    return tuple(
        by_id[key].model_copy(update={"combined_score": score}) for key, score in zip(order, scores, strict=True)
    )
