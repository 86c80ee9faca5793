"""What a memory is worth by the shipped rule."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.maintenance_fixture import START, memory

from memcore.maintenance.enforcement import HALF_LIFE, REPEATED_SHARE, USE_WEIGHT, Candidate, usual_value

NOW = START
MONTH = timedelta(days=30)


def candidate(days_old: float = 0, **known: object) -> Candidate:
    return Candidate(entry=memory(1, days_old=days_old).entry, **known)  # type: ignore[arg-type]  # what a test knows


def test_half_of_what_a_memory_is_worth_for_being_new_is_left_after_the_half_life() -> None:
    assert usual_value(candidate(), NOW) == 2.0
    assert usual_value(candidate(HALF_LIFE.days), NOW) == pytest.approx(1.5)


def test_worth_is_in_proportion_to_information() -> None:
    assert usual_value(candidate(information=7.0), NOW) == pytest.approx(7 * usual_value(candidate(), NOW))


def test_worth_is_in_proportion_to_confidence() -> None:
    doubted = Candidate(entry=memory(1, days_old=HALF_LIFE.days, confidence=0.5).entry)
    assert usual_value(doubted, NOW) == pytest.approx(0.75)


def test_a_memory_from_the_future_is_worth_no_more_than_a_new_one() -> None:
    assert usual_value(candidate(-5), NOW) == usual_value(candidate(), NOW)


def test_one_that_was_used_often_and_lately_is_worth_more_than_any_that_was_not() -> None:
    used = candidate(10 * HALF_LIFE.days, uses=8, last_used_at=NOW)
    assert usual_value(used, NOW) == pytest.approx(1 + USE_WEIGHT, abs=0.01)
    assert usual_value(used, NOW) > usual_value(candidate(), NOW)


@given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 500))
def test_more_uses_and_later_ones_are_never_worth_less(uses: int, more: int, days_ago: int) -> None:
    at = NOW - timedelta(days=days_ago)
    seldom = usual_value(candidate(300, uses=uses, last_used_at=at), NOW)
    assert usual_value(candidate(300, uses=uses + more, last_used_at=at), NOW) >= seldom
    assert usual_value(candidate(300, uses=uses, last_used_at=at + MONTH), NOW) >= seldom
    assert usual_value(candidate(300), NOW) <= seldom


def test_what_a_newer_memory_repeats_is_worth_a_tenth() -> None:
    repeated = candidate(is_repeated=True, uses=2, last_used_at=NOW)
    assert usual_value(repeated, NOW) == pytest.approx(
        REPEATED_SHARE * usual_value(candidate(uses=2, last_used_at=NOW), NOW)
    )
