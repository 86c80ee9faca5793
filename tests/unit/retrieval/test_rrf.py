"""Reciprocal rank fusion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scored_memories import entries, entry, ids

from memcore.config.retrieval import FusionStrategy
from memcore.models.memory import MemoryEntry
from memcore.retrieval.ranking import fuse_ranked_lists

_A, _B, _C = entry("a", relevance=0.9), entry("b"), entry("c")


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_an_error(k: int) -> None:
    with pytest.raises(ValueError, match="k must be 1 or more"):
        fuse_ranked_lists(((_A,),), k=k)


@pytest.mark.parametrize("max_results", [0, -5])
def test_max_results_below_one_is_an_error(max_results: int) -> None:
    with pytest.raises(ValueError, match="max_results must be 1 or more"):
        fuse_ranked_lists(((_A,),), max_results=max_results)


def test_nothing_in_no_list_is_nothing() -> None:
    assert fuse_ranked_lists(()) == ()
    assert fuse_ranked_lists(((), ())) == ()


def test_the_sum_of_reciprocal_ranks_decides() -> None:
    # b: 1/62 + 1/61, a: 1/61, c: 1/62
    found = fuse_ranked_lists(((_A, _B), (_B, _C)))
    assert ids(found) == ["b", "a", "c"]
    low, high = 1 / 62, 1 / 62 + 1 / 61
    assert [each.combined_score for each in found] == pytest.approx([1.0, (1 / 61 - low) / (high - low), 0.0])


def test_all_equal_are_all_one() -> None:
    assert [each.combined_score for each in fuse_ranked_lists(((_A,), (_B,)))] == [1.0, 1.0]


def test_an_id_counts_once_in_a_list_at_its_best_place() -> None:
    assert ids(fuse_ranked_lists(((_B, _A, _A, _A, _A),))) == ["b", "a"]


def test_the_first_object_of_an_id_is_kept_with_its_raw_relevance() -> None:
    other = entry("a", "the same id from another list", relevance=0.1)
    found = fuse_ranked_lists(((_A,), (other, _B)))
    assert next(each for each in found if each.entry.id == "a").entry is _A
    assert {each.entry.id: each.relevance_score for each in found} == {"a": 0.9, "b": 0.0}
    assert all(each.recency_score == 0.0 for each in found)


def test_min_relevance_does_not_always_drop_the_last_hit() -> None:
    # On the spread scale c has 0.0, although its sum is most of the best one's.
    found = fuse_ranked_lists(((_A, _B, _C),), min_relevance=0.3)
    assert ids(found) == ["a", "b", "c"]
    assert found[-1].combined_score == 0.0


def test_min_relevance_drops_what_has_little_of_the_best_sum() -> None:
    # k 1: a has 1/2 + 1/2, c 1/4.
    assert ids(fuse_ranked_lists(((_A, _B, _C), (_A,)), k=1, min_relevance=0.3)) == ["a", "b"]


def test_is_shared_is_kept() -> None:
    found = fuse_ranked_lists(((_A,), (_B,)), shared_ids={"b"})
    assert {each.entry.id: each.is_shared for each in found} == {"a": False, "b": True}


def test_results_end_at_max_results() -> None:
    assert len(fuse_ranked_lists(([entry(str(i)) for i in range(30)],))) == 20
    assert ids(fuse_ranked_lists(((_A, _B, _C),), max_results=2)) == ["a", "b"]


@given(lists=st.lists(entries(), max_size=4), k=st.integers(min_value=1, max_value=1000))
def test_fusion_is_sorted_bounded_and_complete(lists: list[tuple[MemoryEntry, ...]], k: int) -> None:
    found = fuse_ranked_lists(lists, k=k, max_results=1000)
    combined = [each.combined_score for each in found]
    assert combined == sorted(combined, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in combined)
    assert all(each.scoring_strategy is FusionStrategy.RRF for each in found)
    assert sorted(ids(found)) == sorted({each.id for ranked in lists for each in ranked})
    assert not found or found[0].combined_score == 1.0
