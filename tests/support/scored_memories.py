"""Entries and scored memories for the tests of retrieval, and the strategies that make many of them."""

from datetime import datetime, timedelta

from hypothesis import strategies as st

from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.retrieval.protocol import ScoredMemory
from support.memories import NOW


def entry(
    memory_id: str,
    content: str = "the printer jams on Mondays",
    *,
    relevance: float | None = None,
    created_at: datetime = NOW,
    agent_id: str = "ada",
    tags: tuple[str, ...] = (),
) -> MemoryEntry:
    return MemoryEntry(
        id=memory_id,
        agent_id=agent_id,
        category=MemoryCategory.SEMANTIC,
        content=content,
        metadata=MemoryMetadata(tags=tags),
        created_at=created_at,
        relevance_score=relevance,
    )


def scored(
    memory_id: str,
    combined: float,
    content: str = "the printer jams on Mondays",
    *,
    is_shared: bool = False,
    tags: tuple[str, ...] = (),
) -> ScoredMemory:
    return ScoredMemory(
        entry=entry(memory_id, content, tags=tags),
        relevance_score=combined,
        recency_score=0.0,
        combined_score=combined,
        is_shared=is_shared,
    )


def ids(found: tuple[ScoredMemory, ...]) -> list[str]:
    return [each.entry.id for each in found]


#: Words that repeat, so that texts share pairs of them.
_WORDS = ["disk", "full", "again", "on", "the", "build", "host"]
_texts = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=8).map(" ".join)

_scores = st.floats(min_value=0.0, max_value=1.0)


@st.composite
def entries(draw: st.DrawFn, *, prefix: str = "m") -> tuple[MemoryEntry, ...]:
    number = draw(st.integers(min_value=0, max_value=12))
    return tuple(
        entry(
            f"{prefix}{i}",
            draw(_texts),
            relevance=draw(st.none() | _scores),
            created_at=NOW - timedelta(minutes=draw(st.integers(min_value=-60, max_value=500_000))),
        )
        for i in range(number)
    )


@st.composite
def scored_memories(draw: st.DrawFn) -> tuple[ScoredMemory, ...]:
    number = draw(st.integers(min_value=0, max_value=10))
    found = [scored(f"m{i}", draw(_scores), draw(_texts)) for i in range(number)]
    return tuple(sorted(found, key=lambda each: -each.combined_score))
