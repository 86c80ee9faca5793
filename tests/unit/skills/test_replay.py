"""The replay of a condition on past executions."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution_traces import trajectory
from support.lessons import lesson

from memcore import ids
from memcore.ledger.learning.patterns import Pattern, PatternKind
from memcore.ledger.learning.trajectories import Trajectory
from memcore.models.execution import TerminationReason, Turn
from memcore.skills.candidates import BacktestResult, SkillCandidate, backtest_candidate


def candidate(
    condition: str, key: str = "disk", *, kind: PatternKind = PatternKind.FAILURE, seen: int = 4
) -> SkillCandidate:
    return SkillCandidate(
        pattern_id=condition,
        approval_id=condition,
        pattern=Pattern(kind=kind, key=key, occurrences=seen, agents=3),
        lesson=lesson(condition=condition),
    )


def met(title: str, category: str | None = None, *, agent_id: str = "ada", **more: Any) -> Trajectory:
    reason = TerminationReason.COMPLETED if category is None else TerminationReason.ERROR
    fields = {"task_title": title, "termination_reason": reason, "error_category": category, **more}
    return trajectory(ids.new_id(), agent_id=agent_id, **fields)


def tried(condition: str, *past: Trajectory) -> BacktestResult:
    (backtest,) = backtest_candidate([candidate(condition)], lambda: iter(past))
    return backtest


TALK = [met(f"Talk about {word}") for word in ("tea", "rain", "cake", "dogs")]


def test_figures_are_counted_by_hand() -> None:
    backtest = tried(
        "The import disk is full",
        met("Import", "disk", agent_id="ada", error_message="disk full"),
        met("Import", "disk", agent_id="bob", error_message="disk is full"),
        met("Import", "disk", agent_id="bob", error_message="the disk: full"),
        met("Import", "network", agent_id="eve", error_message="disk share full of holes"),
        met("Export", "disk", agent_id="dan", error_message="no route to host"),
        *TALK,
    )
    assert (backtest.fits, backtest.helped, backtest.agents) == (4, 3, {"ada", "bob"})
    assert (backtest.precision, backtest.recall) == (0.75, 0.75)


@pytest.mark.parametrize(
    "where",
    [
        {"task_description": "The gearbox grinds"},
        {"task_type": "gearbox grinds"},
        {"error_message": "Gearbox grinds!"},
        {"turns": (Turn(tools=("gearbox", "grind")),)},
    ],
)
def test_every_word_that_an_agent_met_counts(where: dict[str, Any]) -> None:
    assert tried("gearbox grinds", met("Drive", "disk", **where), *TALK).helped == 1


def test_the_errors_category_is_a_word_that_was_met() -> None:
    (backtest,) = backtest_candidate(
        [candidate("gearbox_broken", "gearbox_broken")], lambda: iter([met("Drive", "gearbox_broken")])
    )
    assert backtest.helped == 1


def test_rare_words_weigh_more_than_common_ones() -> None:
    common = [met("Nightly import of files") for _ in range(30)]
    backtest = tried("nightly import of files gearbox", met("The gearbox", "disk"), *common)
    # One rare word outweighs three that everybody met.
    assert (backtest.fits, backtest.helped) == (1, 1)


def test_words_that_nobody_met_do_not_count() -> None:
    assert tried("gearbox whatsoever nowhere everafter", met("The gearbox", "disk"), *TALK).helped == 1


@pytest.mark.parametrize("condition", ["the of and", "?!", "nobody met this"])
def test_a_condition_without_a_word_that_was_met_fits_nothing(condition: str) -> None:
    backtest = tried(condition, met("The gearbox", "disk"))
    assert (backtest.fits, backtest.precision, backtest.recall) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("condition", "title"),
    [
        ("ディスクが満杯", "夜にディスクが満杯です"),
        ("磁盘已满", "夜间磁盘已满"),
        ("диск переполнен", "Ночью диск переполнен"),
    ],
)
def test_conditions_fit_in_any_script(condition: str, title: str) -> None:
    assert tried(condition, met(title, "disk"), met("お茶を飲む", "disk"), *TALK).helped == 1


def test_a_success_helped_where_it_went_well_with_the_same_chain() -> None:
    chain = (Turn(tools=("search", "write")),)
    one = candidate("refund", ids.tools_key(("search", "write")), kind=PatternKind.SUCCESS)
    past = [
        met("A refund", turns=chain),
        met("A refund", "disk", turns=chain),
        met("A refund", turns=(Turn(tools=("write", "search")),)),
    ]
    (backtest,) = backtest_candidate([one], lambda: iter(past))
    # The other chain is another way of working: it says nothing about this one.
    assert (backtest.fits, backtest.helped) == (2, 1)


def test_all_candidates_are_tried_in_two_readings_and_none_in_no_reading() -> None:
    readings: list[int] = []

    def stream() -> Iterator[Trajectory]:
        readings.append(1)
        return iter([met("gearbox", "disk"), met("brakes", "disk")])

    first, second = backtest_candidate([candidate("gearbox"), candidate("brakes")], stream)
    assert (first.helped, second.helped, len(readings)) == (1, 1, 2)
    assert backtest_candidate([], stream) == []
    assert len(readings) == 2


def test_what_arrived_since_the_pattern_was_counted_makes_no_recall_above_one() -> None:
    past = [met("gearbox", "disk") for _ in range(5)]
    assert tried("gearbox", *past).recall == 1.0


WORDS = st.lists(st.sampled_from(["disk", "full", "night", "import", "tea"]), min_size=1, max_size=4).map(" ".join)


@given(made=st.lists(st.tuples(WORDS, st.sampled_from([None, "disk"])), max_size=12), condition=WORDS, data=st.data())
def test_the_order_of_the_past_does_not_matter(
    made: list[tuple[str, str | None]], condition: str, data: st.DataObject
) -> None:
    past = [met(title, category) for title, category in made]
    one, other = tried(condition, *past), tried(condition, *data.draw(st.permutations(past)))
    assert (one.fits, one.helped, one.agents) == (other.fits, other.helped, other.agents)
    assert one.helped <= one.fits <= len(past)
