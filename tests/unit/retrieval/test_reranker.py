"""The order of a re-ranker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scored_memories import ids, scored, scored_memories

from memcore.errors import MemoryRetrievalError
from memcore.retrieval.protocol import ScoredMemory, reordered

_A, _B = scored("a", 0.9), scored("b", 0.2)


def test_each_place_has_its_score() -> None:
    found = reordered((_A, _B), (_B, _A))
    assert [(each.entry.id, each.combined_score) for each in found] == [("b", 0.9), ("a", 0.2)]


@pytest.mark.parametrize("reranked", [(), (_A,), (_A, _A), (_A, _B, _B), (_A, scored("c", 0.1))])
def test_other_memories_than_were_given_are_an_error(reranked: tuple[ScoredMemory, ...]) -> None:
    with pytest.raises(MemoryRetrievalError, match="other memories"):
        reordered((_A, _B), reranked)


def test_what_the_reranker_did_to_a_memory_beside_its_place_does_not_count() -> None:
    changed = _B.model_copy(update={"entry": scored("b", 0.2, "another text").entry})
    assert [each.entry.content for each in reordered((_A, _B), (changed, _A))] == [_B.entry.content] * 2


@given(found=scored_memories(), order=st.randoms(use_true_random=False))
def test_the_order_is_the_rerankers_and_the_scores_still_fall(found: tuple[ScoredMemory, ...], order: object) -> None:
    shuffled = list(found)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    result = reordered(found, shuffled)
    assert ids(result) == [each.entry.id for each in shuffled]
    assert [each.combined_score for each in result] == [each.combined_score for each in found]
