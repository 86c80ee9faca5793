"""Patterns across executions, counted on each database."""

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.execution_traces import trajectory
from support.ledger_records import COMPANY
from support.memories import DAWN
from support.thorough import examples

from memcore import ids
from memcore.ledger.learning.patterns import MAX_PAGE, Pattern, PatternKind, PatternTally, Window
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.models.execution import TerminationReason, Turn
from memcore.models.memory import LATEST

SECOND = timedelta(seconds=1)
WINDOW = Window(since=DAWN, until=DAWN + timedelta(days=9), min_agents=2, min_confidence=0.6)
ERROR = TerminationReason.ERROR
SEARCH_WRITE = (Turn(tools=("search",)), Turn(tools=("write",)))


def keep(ledger: Ledger, name: str, agents: str, category: str | None = None, **more: Any) -> None:
    """One execution of each of the agents, given as letters: a failure of the category, or a success."""
    reason = TerminationReason.COMPLETED if category is None else ERROR
    for number, agent in enumerate(agents):
        one = trajectory(
            f"{name}-{number}",
            agent_id=agent,
            younger=number * SECOND,
            termination_reason=reason,
            error_category=category,
            **more,
        )
        assert ledger.trajectories.append(COMPANY, one)


def surest(ledger: Ledger, window: Window = WINDOW) -> list[tuple[str, int, int, int]]:
    return [
        (each.key, each.occurrences, each.agents, each.exposure) for each in ledger.patterns.surest(COMPANY, window)
    ]


def test_a_failure_is_held_against_all_executions_of_the_task_types_in_which_it_occurred(ledger: Ledger) -> None:
    keep(ledger, "a", "aabb", "disk", task_type="import")
    keep(ledger, "b", "ab", task_type="import")
    keep(ledger, "c", "c", "disk", task_type="export")
    keep(ledger, "d", "cc", task_type="export")
    keep(ledger, "e", "abcabc", task_type="chat")
    assert surest(ledger) == [("disk", 5, 3, 9)]
    (found,) = ledger.patterns.surest(COMPANY, WINDOW)
    assert found.kind is PatternKind.FAILURE
    assert found.confidence == 0.5 + 0.5 * 5 / 9


def test_executions_without_a_type_are_of_one_type(ledger: Ledger) -> None:
    keep(ledger, "a", "ab", "disk")
    keep(ledger, "b", "ab")
    keep(ledger, "c", "ab", task_type="chat")
    assert surest(ledger) == [("disk", 2, 2, 4)]


def test_the_outcome_is_no_part_of_the_key_and_confidence_is_graded(ledger: Ledger) -> None:
    # One category in every share of its type: the reference would say 0.5 or 1.0 of each.
    for failed in range(1, 5):
        keep(ledger, f"f{failed}", "abcd"[:failed], f"kind-{failed}", task_type=f"type-{failed}")
        keep(ledger, f"s{failed}", "abcd"[failed:], task_type=f"type-{failed}")
    everything = WINDOW.model_copy(update={"min_agents": 1, "min_confidence": 0.0})
    found = {each.key: each.confidence for each in ledger.patterns.surest(COMPANY, everything)}
    assert found == {"kind-1": 0.625, "kind-2": 0.75, "kind-3": 0.875, "kind-4": 1.0}


def test_a_chain_is_a_pattern_where_it_does_better_than_the_window_and_may_be_sure(ledger: Ledger) -> None:
    keep(ledger, "a", "abcd", turns=SEARCH_WRITE)
    keep(ledger, "b", "a", "disk", turns=SEARCH_WRITE, task_type="x")
    keep(ledger, "c", "ab", turns=(Turn(tools=("write", "search")),))
    keep(ledger, "d", "abcd", "disk", turns=(Turn(tools=("write", "search")),), task_type="y")
    keep(ledger, "e", "ab", turns=(Turn(tools=("write",)),))
    chains = [each for each in ledger.patterns.surest(COMPANY, WINDOW) if each.kind is PatternKind.SUCCESS]
    assert chains == [
        Pattern(kind=PatternKind.SUCCESS, key=ids.tools_key(("search", "write")), occurrences=4, agents=4, exposure=5)
    ]
    assert chains[0].confidence == 0.8


def test_where_all_goes_well_no_chain_is_better_than_another(ledger: Ledger) -> None:
    keep(ledger, "a", "abcd", turns=SEARCH_WRITE)
    assert ledger.patterns.tally(COMPANY, WINDOW) == PatternTally()


def test_few_agents_and_low_confidence_are_counted_and_not_shown(ledger: Ledger) -> None:
    keep(ledger, "a", "aaaa", "of one agent", task_type="a")
    keep(ledger, "b", "ab", "rare", task_type="b")
    keep(ledger, "c", "aaaaaaaaaaaa", task_type="b")
    keep(ledger, "d", "ab", "sure", task_type="c")
    assert ledger.patterns.tally(COMPANY, WINDOW) == PatternTally(found=3, shared=2, sure=1)
    assert surest(ledger) == [("sure", 2, 2, 2)]


def test_a_window_takes_its_beginning_and_leaves_its_end(ledger: Ledger) -> None:
    keep(ledger, "a", "abcd", "disk")
    window = WINDOW.model_copy(update={"since": DAWN + SECOND, "until": DAWN + 3 * SECOND})
    assert surest(ledger, window) == [("disk", 2, 2, 2)]


def test_the_surest_come_first_then_the_most_frequent_over_all_pages(ledger: Ledger) -> None:
    for number in range(MAX_PAGE + 2):
        keep(ledger, f"{number:03}", "ab", f"kind-{number:03}", task_type=f"type-{number:03}")
    keep(ledger, "more", "abc", "often", task_type="often")
    keep(ledger, "less", "abc", "unsure", task_type="unsure")
    keep(ledger, "well", "a", task_type="unsure")
    found = [each[0] for each in surest(ledger)]
    assert found == ["often", *(f"kind-{number:03}" for number in range(MAX_PAGE + 2)), "unsure"]


EXECUTIONS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from([None, "disk", "net"]), st.sampled_from([None, "x", "y"]),
        st.sampled_from([(), ("s",), ("s", "w"), ("w", "s")]),
    ),
    max_size=20,
)  # fmt: skip


def plainly(every: list[Trajectory], window: Window) -> set[tuple[str, int, int, int]]:
    """The sure patterns, counted in plain Python."""
    found: list[Pattern] = []
    for category in {each.error_category for each in every} - {None}:
        shows = [each for each in every if each.error_category == category]
        types = {each.task_type for each in shows}
        found.append(_pattern(PatternKind.FAILURE, category, shows, [e for e in every if e.task_type in types]))
    successes = [each for each in every if each.error_category is None]
    for key in {each.tools_key for each in successes} - {None}:
        shows, called = ([e for e in these if e.tools_key == key] for these in (successes, every))
        if len(shows) * len(every) > len(successes) * len(called):
            found.append(_pattern(PatternKind.SUCCESS, key, shows, called))
    return {
        (each.key, each.occurrences, each.agents, each.exposure)
        for each in found
        if each.agents >= window.min_agents and each.confidence >= window.min_confidence
    }


def _pattern(kind: PatternKind, key: str | None, shows: list[Trajectory], exposed: list[Trajectory]) -> Pattern:
    agents = {each.agent_id for each in shows}
    return Pattern(kind=kind, key=str(key), occurrences=len(shows), agents=len(agents), exposure=len(exposed))


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=EXECUTIONS, min_confidence=st.sampled_from([0.0, 0.6, 0.75, 0.8, 1.0]))
def test_the_database_counts_as_plain_python_does(ledger: Ledger, made: list[Any], min_confidence: float) -> None:
    ledger.trajectories.expire(COMPANY, before=LATEST)
    every: list[Trajectory] = []
    for number, (agent, category, task_type, tools) in enumerate(made):
        one = trajectory(
            str(number),
            agent_id=agent,
            termination_reason=TerminationReason.COMPLETED if category is None else ERROR,
            error_category=category,
            task_type=task_type,
            turns=(Turn(tools=tools),),
        )
        ledger.trajectories.append(COMPANY, one)
        every.append(one)
    window = WINDOW.model_copy(update={"min_confidence": min_confidence})
    found = surest(ledger, window)
    assert set(found) == plainly(every, window)
    assert len(found) == ledger.patterns.tally(COMPANY, window).sure
