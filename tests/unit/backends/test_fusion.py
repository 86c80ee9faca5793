"""The weighted sum of two lists."""

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.memories import record

from memcore.backends.fusion import Hit, RankedLists, default_dense_weight, weighted, weighted_rankings
from memcore.embedding.protocol import EmbedderKind

IDS = st.sampled_from("abcdefgh")
#: A busy machine is no fault of the sum: how long examples take is not judged.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DENSE = st.dictionaries(IDS, st.floats(-1, 1, allow_subnormal=False), max_size=8)
SPARSE = st.dictionaries(IDS, st.floats(0, 50, allow_subnormal=False), max_size=8)
WEIGHT = st.floats(0, 1, allow_subnormal=False)


@UNTIMED
@given(DENSE, SPARSE, WEIGHT)
def test_every_id_of_either_list_gets_a_relevance(dense: dict[str, float], sparse: dict[str, float], w: float) -> None:
    fused = weighted(dense, sparse, dense_weight=w)
    assert fused.keys() == dense.keys() | sparse.keys()
    assert all(0.0 <= score <= 1.0 for score in fused.values())


@UNTIMED
@given(DENSE, SPARSE, WEIGHT)
def test_what_is_ahead_in_both_lists_is_not_behind(dense: dict[str, float], sparse: dict[str, float], w: float) -> None:
    fused = weighted(dense, sparse, dense_weight=w)
    for one in fused:
        for other in fused:
            nearer = max(0.0, dense.get(one, 0.0)) >= max(0.0, dense.get(other, 0.0))
            if nearer and sparse.get(one, 0.0) >= sparse.get(other, 0.0):
                assert fused[one] >= fused[other]


@UNTIMED
@given(DENSE, SPARSE, WEIGHT, IDS, st.floats(0, 1))
def test_a_score_that_grows_below_the_best_lowers_nothing_of_its_own(
    dense: dict[str, float], sparse: dict[str, float], w: float, key: str, part: float
) -> None:
    for scores, is_dense in ((dense, True), (sparse, False)):
        best = max(scores.values(), default=0.0)
        if key not in scores or best <= 0.0:
            continue
        grown = {**scores, key: scores[key] + part * (best - scores[key])}
        before = weighted(dense, sparse, dense_weight=w)
        after = weighted(grown, sparse, dense_weight=w) if is_dense else weighted(dense, grown, dense_weight=w)
        assert after[key] >= before[key] - 1e-12
        assert {name: after[name] for name in after if name != key} == pytest.approx(
            {name: before[name] for name in before if name != key}
        )


@UNTIMED
@given(DENSE, SPARSE, WEIGHT)
def test_the_order_in_which_scores_are_given_says_nothing(
    dense: dict[str, float], sparse: dict[str, float], w: float
) -> None:
    def turned(scores: Mapping[str, float]) -> dict[str, float]:
        return dict(reversed(list(scores.items())))

    assert weighted(turned(dense), turned(sparse), dense_weight=w) == weighted(dense, sparse, dense_weight=w)


@UNTIMED
@given(DENSE, SPARSE, WEIGHT)
def test_beside_an_empty_list_the_other_speaks_alone(
    dense: dict[str, float], sparse: dict[str, float], w: float
) -> None:
    for alone, fused in (
        (dense, weighted(dense, {}, dense_weight=w)),
        (sparse, weighted({}, sparse, dense_weight=w)),
    ):
        best = max(alone.values(), default=0.0)
        assert fused == {key: max(0.0, score) / best if best > 0.0 else 0.0 for key, score in alone.items()}


def test_the_scale_is_each_lists_best() -> None:
    fused = weighted({"a": 0.8, "b": 0.4, "c": -0.1}, {"b": 8.0, "d": 2.0}, dense_weight=0.4)
    assert fused == pytest.approx({"a": 0.4, "b": 0.4 * 0.5 + 0.6, "c": 0.0, "d": 0.6 * 0.25})


def test_a_list_that_is_empty_leaves_the_other_its_full_range() -> None:
    assert weighted({"a": 0.8, "b": 0.2}, {}, dense_weight=0.4) == {"a": 1.0, "b": 0.25}
    assert weighted({}, {"a": 4.0, "b": 1.0}, dense_weight=0.4) == {"a": 1.0, "b": 0.25}
    assert weighted({}, {}, dense_weight=0.4) == {}


def test_a_list_of_nothing_above_zero_counts_as_empty() -> None:
    assert weighted({"a": -0.8}, {"b": 3.0}, dense_weight=0.4) == {"a": 0.0, "b": 1.0}
    assert weighted({"a": 0.5}, {"b": 0.0}, dense_weight=0.4) == {"a": 1.0, "b": 0.0}
    assert weighted({"a": -0.8}, {}, dense_weight=0.4) == {"a": 0.0}


def test_rankings_are_fused_on_one_scale_with_the_known_similarities() -> None:
    own, worded, theirs = (record("ada", text).entry for text in ("my own", "worded", "theirs"))
    rankings = RankedLists(
        dense=(Hit(entry=own, score=0.4, cosine=0.4, bm25=1.0),),
        sparse=(Hit(entry=worded, score=10.0, cosine=0.2),),
        shared_dense=(Hit(entry=theirs, score=0.8, cosine=0.8),),
        shared_sparse=(Hit(entry=theirs, score=5.0, cosine=0.8),),
    )
    assert weighted_rankings(rankings, dense_weight=0.4) == pytest.approx(
        {own.id: 0.4 * 0.5 + 0.6 * 0.1, worded.id: 0.4 * 0.25 + 0.6, theirs.id: 0.4 + 0.6 * 0.5}
    )


def test_the_share_of_the_vectors_is_the_embedders() -> None:
    assert default_dense_weight(EmbedderKind.STATIC) == 0.4
    assert {default_dense_weight(kind) for kind in EmbedderKind if kind is not EmbedderKind.STATIC} == {0.5}
