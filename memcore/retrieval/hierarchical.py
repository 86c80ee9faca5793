"""The place of a retriever that asks one worker for each kind of memory."""

from typing import Protocol, runtime_checkable

from memcore.models import MemoryCategory
from memcore.retrieval.scored_memory import ScoredMemory


@runtime_checkable
class HierarchicalRetriever(Protocol):
    """Find and rank memories by routing a question; used when ``retriever`` is ``hierarchical``."""

    async def retrieve(
        self, agent_id: str, query_text: str, *, limit: int, categories: frozenset[MemoryCategory] | None = None
    ) -> tuple[ScoredMemory, ...]:
        """Return at most ``limit`` memories, best first."""
        ...
