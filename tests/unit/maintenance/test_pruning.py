"""Pruning, against the definition spelled out by brute force."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW

from memcore.config.maintenance import PruningConfig
from memcore.maintenance.retention import WeighedLesson, expired, surpassed, to_prune

#: Few values, so that entries often share one.
RELEVANCE = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
PLACES = st.lists(st.tuples(st.integers(0, 12), RELEVANCE), max_size=24)


def entries(places: list[tuple[int, float]]) -> list[WeighedLesson]:
    return [
        WeighedLesson(id=f"m{number}", created_at=NOW - timedelta(days=days), relevance_score=relevance)
        for number, (days, relevance) in enumerate(places)
    ]


def beats(one: WeighedLesson, other: WeighedLesson) -> bool:
    mine, yours = (one.relevance_score, one.created_at), (other.relevance_score, other.created_at)
    return mine[0] >= yours[0] and mine[1] >= yours[1] and mine != yours


def layers(left: list[WeighedLesson]) -> list[list[WeighedLesson]]:
    peeled: list[list[WeighedLesson]] = []
    while left:
        front = [each for each in left if not any(beats(other, each) for other in left)]
        peeled.append(front)
        left = [each for each in left if each not in front]
    return peeled


@given(PLACES, st.integers(1, 30))
def test_pareto_keeps_exactly_max_entries_layer_by_layer(places: list[tuple[int, float]], most: int) -> None:
    every = entries(places)
    gone = set(surpassed(every, max_entries=most))
    kept = [each for each in every if each.id not in gone]
    assert len(kept) == min(most, len(every))
    cut = 0
    for front in layers(every):
        survives_retention = [each for each in front if each.id not in gone]
        if survives_retention:
            assert cut == 0, "no layer is begun before the one above it is whole"
            left_out = [each for each in front if each.id in gone]
            # Of the layer that does not fit the newest stay.
            assert all(one.created_at >= other.created_at for one in survives_retention for other in left_out)
        cut += len(front) - len(survives_retention)


@given(PLACES, st.integers(1, 30), st.randoms())
def test_pareto_forgets_the_same_whatever_the_order(places: list[tuple[int, float]], most: int, by: object) -> None:
    every = entries(places)
    shuffled = sorted(every, key=lambda _: by.random())  # type: ignore[attr-defined]  # a Random
    assert set(surpassed(every, max_entries=most)) == set(surpassed(shuffled, max_entries=most))


def test_without_any_relevance_the_newest_stay_and_not_one_alone() -> None:
    every = entries([(day, 0.0) for day in range(150)])
    assert set(surpassed(every, max_entries=100)) == {f"m{day}" for day in range(100, 150)}


def test_an_old_lesson_that_matters_outlives_a_new_one_that_does_not() -> None:
    every = entries([(0, 0.1), (1, 0.1), (300, 0.9)])
    assert surpassed(every, max_entries=2) == ("m1",)


def test_up_to_max_entries_nobody_is_beaten() -> None:
    assert surpassed(entries([(1, 0.0)] * 100), max_entries=100) == ()


def test_age_forgets_what_is_older_and_not_what_is_as_old() -> None:
    every = entries([(89, 0.0), (90, 0.0), (91, 0.0)])
    assert expired(every, max_age=timedelta(days=90), now=NOW) == ("m2",)
    assert expired(every, max_age=timedelta(days=90), now=NOW + timedelta(seconds=1)) == ("m1", "m2")


@pytest.mark.parametrize(
    ("strategy", "gone"), [("ttl", ("m2", "m3")), ("pareto", ("m1", "m2")), ("hybrid", ("m2", "m3"))]
)
def test_the_policy_chooses(strategy: str, gone: tuple[str, ...]) -> None:
    every = entries([(0, 0.5), (1, 0.4), (100, 0.1), (100, 0.9)])
    config = PruningConfig.model_validate({"type": strategy, "max_age_days": 90, "max_entries": 2})
    assert to_prune(every, config, now=NOW) == gone


@given(PLACES, st.integers(1, 12), st.integers(1, 12))
def test_hybrid_is_age_first_and_then_the_rest_down_to_max_entries(
    places: list[tuple[int, float]], days: int, most: int
) -> None:
    every = entries(places)
    config = PruningConfig(type="hybrid", max_age_days=days, max_entries=most)
    gone = set(to_prune(every, config, now=NOW))
    old = set(expired(every, max_age=timedelta(days=days), now=NOW))
    assert old <= gone
    assert len(every) - len(gone) == min(most, len(every) - len(old))
