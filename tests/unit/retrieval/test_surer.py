"""Lessons in a prompt: of two that fit alike, the one that proved itself comes first."""

import pytest
from support.scored_memories import ids, scored

from memcore.models.memory import NON_INFERABLE_TAG, MemoryCategory, MemoryMetadata
from memcore.retrieval.protocol import ScoredMemory
from memcore.retrieval.ranking import surer_first


def held(memory_id: str, score: float, confidence: float, *, category: str = "procedural", tag: str) -> ScoredMemory:
    memory = scored(memory_id, score)
    metadata = MemoryMetadata(confidence=confidence, tags=(tag,))
    entry = memory.entry.model_copy(update={"metadata": metadata, "category": MemoryCategory(category)})
    return memory.model_copy(update={"entry": entry})


def test_a_lesson_that_failed_waits_behind_one_that_helped() -> None:
    failed, helped = (held(name, 0.8, sure, tag=NON_INFERABLE_TAG) for name, sure in (("failed", 0.4), ("helped", 0.9)))
    fact = scored("fact", 0.75)
    ranked = surer_first((failed, helped, fact))
    assert ids(ranked) == ["fact", "helped", "failed"]
    # What a prompt shows, and what a floor is held against, is the relevance.
    assert [each.relevance_score for each in ranked] == [0.75, 0.8, 0.8]


@pytest.mark.parametrize(("category", "tag"), [("semantic", NON_INFERABLE_TAG), ("procedural", "notes")])
def test_other_memories_keep_their_scores(category: str, tag: str) -> None:
    ranked = (held("a", 0.8, 0.1, category=category, tag=tag), scored("b", 0.7))
    assert surer_first(ranked) == ranked
