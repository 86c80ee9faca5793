"""What the fleet's tasks have in common, reckoned here without memtend's own queries."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from examples.demo.fleet import NEWCOMER, SHARED_FAILURE, agents, traces
from memcore.config.learning import EvolverConfig
from memcore.models.execution import ExecutionTrace

NOW = datetime(2028, 3, 1, 0, 5, tzinfo=UTC)

#: Agents that must have met a thing before it is everybody's business.
MANY = EvolverConfig().min_agents_seen_pattern


@pytest.fixture(scope="module")
def reported() -> list[tuple[str, ExecutionTrace]]:
    return list(traces(NOW))


def seen_by(reported: list[tuple[str, ExecutionTrace]], *, failed: bool) -> dict[str, set[str]]:
    """Return by whom each kind of failure, or each chain of tools that ended well, was met."""
    found: dict[str, set[str]] = defaultdict(set)
    for agent_id, trace in reported:
        if trace.termination_reason.is_success is not failed:
            found[trace.failure or ">".join(trace.tools)].add(agent_id)
    return found


def test_the_whole_fleet_tells_and_everything_lies_in_the_evolvers_window(
    reported: list[tuple[str, ExecutionTrace]],
) -> None:
    assert {agent_id for agent_id, _ in reported} == {agent.id for agent in agents()}
    assert len(reported) >= 40
    assert len({trace.task_id for _, trace in reported}) == len(reported)
    assert all(timedelta(0) < NOW - trace.ended_at < timedelta(days=21) for _, trace in reported)


def test_one_failure_is_shared_by_many_and_every_other_one_is_not(reported: list[tuple[str, ExecutionTrace]]) -> None:
    met = seen_by(reported, failed=True)
    assert {category for category, whom in met.items() if len(whom) >= MANY} == {SHARED_FAILURE}
    assert len(met[SHARED_FAILURE]) == MANY + 1
    assert NEWCOMER not in met[SHARED_FAILURE]
    assert met["flaky_clock"] == {"qa"}
    assert len(met["disk_full"]) == MANY - 1
    assert len(met) >= 8


def test_those_who_share_it_tell_it_in_their_own_words(reported: list[tuple[str, ExecutionTrace]]) -> None:
    shared = [trace for _, trace in reported if trace.failure == SHARED_FAILURE]
    assert len({trace.task_title for trace in shared}) == len({trace.error_message for trace in shared}) == len(shared)
    assert {trace.recovery is not None and trace.recovery.is_recovered for trace in shared} == {True, False}


def test_one_chain_of_tools_that_ends_well_is_shared_by_many(reported: list[tuple[str, ExecutionTrace]]) -> None:
    chains = seen_by(reported, failed=False)
    assert {chain for chain, whom in chains.items() if len(whom) >= MANY} == {"read_diff>run_tests>post_review"}


def test_deploys_also_end_well_so_that_a_lesson_about_deploys_can_be_wrong(
    reported: list[tuple[str, ExecutionTrace]],
) -> None:
    deploys = [trace.termination_reason.is_success for _, trace in reported if trace.task_type == "deploy"]
    assert sum(deploys) >= 4
    assert all(trace.task_type == "deploy" for _, trace in reported if trace.failure == SHARED_FAILURE)
    # What the evolver makes of it: half and half the rate among tasks of their type.
    assert 0.5 + 0.5 * (1 - sum(deploys) / len(deploys)) >= EvolverConfig().min_confidence_for_org_promotion
