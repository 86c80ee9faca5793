"""Bounds on shares, lift, and what applications make of them: more evidence never speaks against itself."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.ledger.learning.bounds import lower_bound, upper_bound
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.learning.trajectories import Trajectory
from memcore.models.execution import TerminationReason
from memcore.skills.evidence import Evidence, Usual, applied, attributable, success_share

CASES = st.integers(0, 200).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))
SHARES = st.floats(0.01, 0.99)
VOTES = st.floats(-20.0, 20.0)
AGENTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1)


def execution(agent_id: str, task_type: str, error: str | None = None) -> Trajectory:
    """Return an execution of a type of task, which failed if an error is named."""
    return Trajectory(
        id=f"{agent_id}-{task_type}",
        agent_id=agent_id,
        task_id=task_type,
        task_title=task_type,
        task_type=task_type,
        outcome=TerminationReason.ERROR if error else TerminationReason.COMPLETED,
        error_category=error,
        ended_at=datetime(2026, 11, 1, tzinfo=UTC),
    )


def test_bounds_are_wilsons() -> None:
    # By hand, with z = 1.645: (p + z2/2n -+ z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n).
    assert lower_bound(8, 10) == pytest.approx(0.5408, abs=1e-4)
    assert upper_bound(8, 10) == pytest.approx(0.9314, abs=1e-4)
    assert (lower_bound(0, 0), upper_bound(0, 0)) == (0.0, 1.0)
    assert lower_bound(4, 4) == pytest.approx(4 / (4 + 1.645**2))


@given(case=CASES)
def test_a_share_lies_between_its_bounds_and_more_hits_raise_both(case: tuple[int, int]) -> None:
    hits, of = case
    assert 0.0 <= lower_bound(hits, of) <= upper_bound(hits, of) <= 1.0
    if of:
        assert lower_bound(hits, of) <= hits / of + 1e-9
        assert upper_bound(hits, of) >= hits / of - 1e-9
    assert lower_bound(hits + 1, of + 1) >= lower_bound(hits, of) - 1e-12
    assert upper_bound(hits, of + 1) <= upper_bound(hits, of) + 1e-12


@given(case=CASES, times=st.integers(1, 9))
def test_the_same_share_of_more_cases_is_surer(case: tuple[int, int], times: int) -> None:
    hits, of = case
    assert lower_bound(times * hits, times * of) >= lower_bound(hits, of) - 1e-12


@given(tried=AGENTS, data=st.data(), rest=CASES)
def test_more_evidence_of_a_failing_case_never_makes_it_less_sure(
    tried: dict[str, int], data: st.DataObject, rest: tuple[int, int]
) -> None:
    hits = {each: data.draw(st.integers(0, number)) for each, number in tried.items()}
    agent = data.draw(st.sampled_from("abcdefg"))
    before = attributable(hits, tried, usual_hits=rest[0], usual=rest[1])
    failed_again = {**hits, agent: hits.get(agent, 0) + 1}, {**tried, agent: tried.get(agent, 0) + 1}
    assert attributable(*failed_again, usual_hits=rest[0], usual=rest[1]) >= before - 1e-12
    assert attributable(hits, tried, usual_hits=rest[0], usual=rest[1] + 1) >= before - 1e-12
    assert attributable(hits, tried, usual_hits=rest[0] + 1, usual=rest[1] + 1) <= before + 1e-12


@pytest.mark.parametrize("failures", [3, 25, 50])
@pytest.mark.parametrize("elsewhere", [0, 1, 100])
def test_four_agents_that_always_fail_at_a_kind_of_task_are_as_sure_however_often_they_fail(
    failures: int, elsewhere: int
) -> None:
    usual, evidence = Usual(), Evidence(kind=PatternKind.FAILURE)
    for agent in "abcd":
        for _ in range(failures):
            usual.note(failed := execution(agent, "import", error="disk full"))
            evidence.note(failed, is_shown=True, is_tried=False, is_met=True)
    for _ in range(elsewhere):
        usual.note(execution("a", "report"))
    least = {0: lower_bound(12, 12), 1: lower_bound(12, 12), 100: 0.96}[elsewhere]
    assert evidence.confidence(usual) == pytest.approx(least, abs=0.01)


def test_what_fails_as_often_elsewhere_has_no_confidence_and_a_loud_agent_makes_none() -> None:
    thrice = {"a": 3, "b": 3, "c": 3}
    assert attributable(thrice, dict.fromkeys("abc", 30), usual_hits=90, usual=900) == 0.0
    loud = {"a": 1, "b": 1, "c": 1_000}
    assert attributable(loud, {"a": 100, "b": 100, "c": 1_000}, usual_hits=0, usual=1_000) < 0.8


def test_without_anything_to_compare_with_the_rate_and_the_number_of_agents_decide() -> None:
    few, many = dict.fromkeys("abc", 9), dict.fromkeys("abcdefgh", 9)
    assert attributable(few, few, usual_hits=0, usual=0) == lower_bound(9, 9) < 0.8
    assert attributable(many, many, usual_hits=0, usual=0) == lower_bound(24, 24) > 0.8
    assert attributable(dict.fromkeys(many, 3), many, usual_hits=0, usual=0) < 0.5
    # A chain must beat another way: without one there is nothing that it beats.
    assert success_share({"a": 9, "b": 9}, {"a": 9, "b": 9}, usual_hits=0, usual=0) == 0.0


def test_a_chain_must_surely_beat_the_other_ways() -> None:
    agents = dict.fromkeys("abcdef", 3)
    assert success_share(agents, agents, usual_hits=40, usual=80) == lower_bound(18, 18)
    assert success_share(agents, agents, usual_hits=80, usual=80) == 0.0
    # Thirty times by one agent are as sure as three times.
    loud = {**agents, "a": 30}
    assert success_share(loud, loud, usual_hits=40, usual=80) == lower_bound(18, 18)


@given(tried=AGENTS, data=st.data(), rest=CASES)
def test_one_success_more_never_makes_a_chain_less_sure(
    tried: dict[str, int], data: st.DataObject, rest: tuple[int, int]
) -> None:
    hits = {each: data.draw(st.integers(0, number)) for each, number in tried.items()}
    agent = data.draw(st.sampled_from(sorted(tried)))
    before = success_share(hits, tried, usual_hits=rest[0], usual=rest[1])
    more = ({**hits, agent: hits[agent] + 1}, {**tried, agent: tried[agent] + 1})
    assert success_share(*more, usual_hits=rest[0], usual=rest[1]) >= before - 1e-12


@given(confidence=SHARES, votes=VOTES, more=st.floats(0.0, 5.0))
def test_a_success_never_lowers_confidence_and_a_failure_never_raises_it(
    confidence: float, votes: float, more: float
) -> None:
    assert 0.0 <= applied(confidence, votes) <= 1.0
    assert applied(confidence, votes + more) >= applied(confidence, votes) - 1e-12
    assert applied(confidence, 0.0) == confidence


def test_an_agent_that_is_always_helped_makes_it_three_times_as_likely() -> None:
    assert applied(0.5, 1.0) == pytest.approx(0.75)
    assert applied(0.5, -1.0) == pytest.approx(0.25)
    # What has no lift is no pattern, whatever is said of it.
    assert applied(0.0, 20.0) == 0.0
