import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.embedding.bm25 import relevance_of, score_of
from memcore.errors import MemoryInputError


def test_known_scores() -> None:
    assert [relevance_of(score) for score in (0.0, 1.0, 3.0, math.inf)] == [0.0, 0.5, 0.75, 1.0]


@given(st.floats(0.0, 1e6), st.floats(1e-3, 1e6))
def test_a_higher_score_is_always_a_higher_relevance(score: float, more: float) -> None:
    assert 0.0 <= relevance_of(score) < relevance_of(score + more) < 1.0


def test_strong_hits_stay_apart_where_a_clamp_would_level_them() -> None:
    assert relevance_of(7.0) < relevance_of(7.5) < relevance_of(31.0)


@given(st.floats(0.0, 1e4))
def test_a_relevance_leads_back_to_its_score(score: float) -> None:
    assert score_of(relevance_of(score)) == pytest.approx(score, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("score", [-0.1, math.nan])
def test_a_score_that_bm25_cannot_give_is_refused(score: float) -> None:
    with pytest.raises(MemoryInputError, match="score"):
        relevance_of(score)


@pytest.mark.parametrize("relevance", [-0.1, 1.0, math.nan])
def test_a_relevance_without_a_score_is_refused(relevance: float) -> None:
    with pytest.raises(MemoryInputError, match="relevance"):
        score_of(relevance)
