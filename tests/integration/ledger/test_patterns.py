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
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.patterns import MAX_PAGE, Pattern, PatternKind, PatternTally, Window
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.models.execution import TerminationReason, Turn
from memcore.models.memory import LATEST, ConsolidationInterval

SECOND = timedelta(seconds=1)
WINDOW = Window(since=DAWN, until=DAWN + timedelta(days=9), min_agents=2)
ERROR = TerminationReason.ERROR
SEARCH_WRITE = (Turn(tools=("search",)), Turn(tools=("write",)))


def add(ledger: Ledger, agent_id: str) -> None:
    """Let a person add an agent."""
    ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent_id))


def keep(ledger: Ledger, name: str, agents: str, category: str | None = None, **more: Any) -> None:
    """One execution of each of the agents, given as letters: a failure of the category, or a success."""
    reason = TerminationReason.COMPLETED if category is None else ERROR
    for number, agent in enumerate(agents):
        add(ledger, agent)
        one = trajectory(
            f"{name}-{number}",
            agent_id=agent,
            younger=number * SECOND,
            termination_reason=reason,
            error_category=category,
            **more,
        )
        assert ledger.trajectories.append(COMPANY, one)


def shared(ledger: Ledger, window: Window = WINDOW) -> list[tuple[str, int, int]]:
    return [(each.key, each.occurrences, each.agents) for each in ledger.patterns.shared(COMPANY, window)]


def test_a_failure_is_counted_over_all_task_types(ledger: Ledger) -> None:
    keep(ledger, "a", "aabb", "disk", task_type="import")
    keep(ledger, "b", "ab", task_type="import")
    keep(ledger, "c", "c", "disk", task_type="export")
    assert shared(ledger) == [("disk", 5, 3)]


def test_executions_of_agents_that_nobody_added_are_not_counted(ledger: Ledger) -> None:
    keep(ledger, "a", "aab", "disk", turns=SEARCH_WRITE)
    for number, agent in enumerate(("x-1", "x-2", "x-3")):
        one = trajectory(f"x-{number}", agent_id=agent, termination_reason=ERROR, error_category="disk")
        assert ledger.trajectories.append(COMPANY, one)
    ledger.agents.register(COMPANY, ["x-1"], interval=ConsolidationInterval.DAILY)
    assert shared(ledger) == [("disk", 3, 2)]
    window = {"since": WINDOW.since, "until": WINDOW.until}
    read = list(ledger.trajectories.stream_added(COMPANY, **window))
    assert ledger.trajectories.count_added(COMPANY, **window) == len(read) == 3
    add(ledger, "x-1")
    assert shared(ledger) == [("disk", 4, 3)]


def test_a_chain_is_a_pattern_where_it_does_better_than_the_window_and_may_be_sure(ledger: Ledger) -> None:
    keep(ledger, "a", "abcd", turns=SEARCH_WRITE)
    keep(ledger, "b", "a", "disk", turns=SEARCH_WRITE, task_type="x")
    keep(ledger, "c", "ab", turns=(Turn(tools=("write", "search")),))
    keep(ledger, "d", "abcd", "disk", turns=(Turn(tools=("write", "search")),), task_type="y")
    keep(ledger, "e", "ab", turns=(Turn(tools=("write",)),))
    chains = [each for each in ledger.patterns.shared(COMPANY, WINDOW) if each.kind is PatternKind.SUCCESS]
    assert chains == [
        Pattern(kind=PatternKind.SUCCESS, key=ids.tools_key(("search", "write")), occurrences=4, agents=4)
    ]


def test_where_all_goes_well_no_chain_is_better_than_another(ledger: Ledger) -> None:
    keep(ledger, "a", "abcd", turns=SEARCH_WRITE)
    assert ledger.patterns.tally(COMPANY, WINDOW) == PatternTally()


def test_what_few_agents_show_is_counted_and_left_out(ledger: Ledger) -> None:
    keep(ledger, "a", "aaaa", "of one agent", task_type="a")
    keep(ledger, "b", "ab", "rare", task_type="b")
    assert ledger.patterns.tally(COMPANY, WINDOW) == PatternTally(found=2, shared=1)
    assert shared(ledger) == [("rare", 2, 2)]


def test_a_window_takes_its_beginning_and_leaves_its_end(ledger: Ledger) -> None:
    keep(ledger, "a", "abcd", "disk")
    window = WINDOW.model_copy(update={"since": DAWN + SECOND, "until": DAWN + 3 * SECOND})
    assert shared(ledger, window) == [("disk", 2, 2)]


def test_those_of_most_agents_come_first_then_the_most_frequent_over_all_pages(ledger: Ledger) -> None:
    for number in range(MAX_PAGE + 2):
        keep(ledger, f"{number:03}", "ab", f"kind-{number:03}")
    keep(ledger, "more", "abc", "many agents")
    keep(ledger, "often", "aab", "often")
    found = [each[0] for each in shared(ledger)]
    assert found == ["many agents", "often", *(f"kind-{number:03}" for number in range(MAX_PAGE + 2))]


EXECUTIONS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from([None, "disk", "net"]), st.sampled_from([None, "x", "y"]),
        st.sampled_from([(), ("s",), ("s", "w"), ("w", "s")]),
    ),
    max_size=20,
)  # fmt: skip


def plainly(every: list[Trajectory], window: Window) -> set[tuple[str, int, int]]:
    """The patterns that enough agents show, counted in plain Python."""
    categories = {each.error_category for each in every} - {None}
    found = [(str(name), [each for each in every if each.error_category == name]) for name in categories]
    successes = [each for each in every if each.error_category is None]
    for key in {each.tools_key for each in successes} - {None}:
        shows, called = ([e for e in these if e.tools_key == key] for these in (successes, every))
        if len(shows) * len(every) > len(successes) * len(called):
            found.append((str(key), shows))
    counted = {(key, len(shows), len({each.agent_id for each in shows})) for key, shows in found}
    return {each for each in counted if each[2] >= window.min_agents}


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=EXECUTIONS, min_agents=st.integers(1, 3))
def test_the_database_counts_as_plain_python_does(ledger: Ledger, made: list[Any], min_agents: int) -> None:
    ledger.trajectories.expire(COMPANY, before=LATEST)
    every: list[Trajectory] = []
    for number, (agent, category, task_type, tools) in enumerate(made):
        add(ledger, agent)
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
    window = WINDOW.model_copy(update={"min_agents": min_agents})
    found = shared(ledger, window)
    assert set(found) == plainly(every, window)
    assert len(found) == ledger.patterns.tally(COMPANY, window).shared
