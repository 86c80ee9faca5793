"""Re-ranking for diversity."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scored_memories import ids, scored, scored_memories

from memcore.retrieval.protocol import ScoredMemory
from memcore.retrieval.ranking import apply_diversity_penalty, bigram_jaccard


@pytest.mark.parametrize("bad", [-0.01, 1.01, math.nan, math.inf])
def test_a_lambda_outside_its_range_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match=r"diversity_lambda must be 0\.0 to 1\.0"):
        apply_diversity_penalty((), diversity_lambda=bad)


def test_pairs_of_words_are_compared_whatever_their_case() -> None:
    assert bigram_jaccard("Disk full again", "disk FULL today") == pytest.approx(1 / 3)
    assert bigram_jaccard("disk full", "disk full") == 1.0


@pytest.mark.parametrize(("a", "b"), [("disk", "disk"), ("", ""), ("disk", "disk full"), ("a b", "c d")])
def test_fewer_than_two_words_or_none_in_common_is_like_nothing(a: str, b: str) -> None:
    assert bigram_jaccard(a, b) == 0.0


def test_a_repetition_goes_behind_what_is_new() -> None:
    found = (
        scored("a", 0.9, "the disk of the build host is full"),
        scored("copy", 0.85, "the disk of the build host is full"),
        scored("new", 0.7, "Mara prefers reviews before noon"),
    )
    assert ids(apply_diversity_penalty(found)) == ["a", "new", "copy"]


def test_a_similarity_of_ones_own_is_asked() -> None:
    def alike(a: str, b: str) -> float:
        return 1.0 if a[0] == b[0] else 0.0

    found = (scored("a", 0.9, "x one"), scored("b", 0.8, "x two"), scored("c", 0.7, "y three"))
    assert ids(apply_diversity_penalty(found, similarity_fn=alike)) == ["a", "c", "b"]


@given(found=scored_memories(), share=st.floats(min_value=0.0, max_value=1.0))
def test_the_result_is_a_permutation(found: tuple[ScoredMemory, ...], share: float) -> None:
    result = apply_diversity_penalty(found, diversity_lambda=share)
    assert sorted(ids(result)) == sorted(ids(found))
    assert ids(apply_diversity_penalty(found, diversity_lambda=share, limit=3)) == ids(result)[:3]


@given(found=scored_memories())
def test_lambda_one_changes_nothing(found: tuple[ScoredMemory, ...]) -> None:
    assert apply_diversity_penalty(found, diversity_lambda=1.0) == found


@given(found=scored_memories(), share=st.floats(min_value=0.0, max_value=1.0))
def test_every_pick_is_the_best_of_what_was_left(found: tuple[ScoredMemory, ...], share: float) -> None:
    result = apply_diversity_penalty(found, diversity_lambda=share)

    def worth(each: ScoredMemory, picked: tuple[ScoredMemory, ...]) -> float:
        nearest = max((bigram_jaccard(each.entry.content, one.entry.content) for one in picked), default=0.0)
        return share * each.combined_score - (1.0 - share) * nearest

    for place, each in enumerate(result):
        before = result[:place]
        assert worth(each, before) == pytest.approx(max(worth(one, before) for one in result[place:]))
