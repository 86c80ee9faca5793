"""The weighted sum of two lists."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memcore.backends.mem0.fusion import weighted

IDS = st.sampled_from("abcdefgh")
DENSE = st.dictionaries(IDS, st.floats(-1, 1, allow_subnormal=False), max_size=8)
#: A busy machine is no fault of the sum: how long examples take is not judged.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPARSE = st.dictionaries(IDS, st.floats(0, 50, allow_subnormal=False), max_size=8)


@UNTIMED
@given(DENSE, SPARSE, st.floats(0, 1))
def test_every_id_of_either_list_gets_a_relevance(dense: dict[str, float], sparse: dict[str, float], w: float) -> None:
    fused = weighted(dense, sparse, dense_weight=w)
    assert fused.keys() <= dense.keys() | sparse.keys()
    assert dense.keys() <= fused.keys()
    assert all(0.0 <= score <= 1.0 for score in fused.values())


@UNTIMED
@given(DENSE, SPARSE, st.floats(0, 1))
def test_what_is_ahead_in_both_lists_is_not_behind(dense: dict[str, float], sparse: dict[str, float], w: float) -> None:
    fused = weighted(dense, sparse, dense_weight=w)
    both = [key for key in dense if key in sparse]
    for one in both:
        for other in both:
            if dense[one] >= dense[other] and sparse[one] >= sparse[other]:
                assert fused.get(one, 0.0) >= fused.get(other, 0.0) - 1e-12


def test_the_scale_is_the_lists_own() -> None:
    fused = weighted({"a": 0.9, "b": 0.5, "c": 0.1}, {"b": 8.0, "d": 2.0}, dense_weight=0.4)
    assert fused == pytest.approx({"a": 0.4, "b": 0.4 * 0.5 + 0.6, "c": 0.0, "d": 0.6 * 0.25})


def test_a_list_that_is_empty_leaves_the_other_its_full_range() -> None:
    assert weighted({"a": 0.9, "b": 0.1}, {}, dense_weight=0.4) == {"a": 1.0, "b": 0.0}
    assert weighted({}, {"a": 4.0, "b": 1.0}, dense_weight=0.4) == {"a": 1.0, "b": 0.25}
    assert weighted({}, {}, dense_weight=0.4) == {}


def test_a_lone_hit_is_as_relevant_as_it_is_near() -> None:
    assert weighted({"a": 0.3}, {}, dense_weight=0.4) == {"a": 0.3}
    assert weighted({"a": -0.3}, {}, dense_weight=0.4) == {"a": 0.0}
