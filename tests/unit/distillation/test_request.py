"""The memory of a finished task."""

import pytest
from hypothesis import given
from support.execution_traces import TRACES, trace

from memcore.distillation import MAX_LISTED_CALLS, MAX_LISTED_TOOLS, DistillationRequest, MemoryToolName, experience_of
from memcore.models.execution import MAX_NOTE_CHARS, ExecutionTrace, TerminationReason, Turn
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory


def request(made: ExecutionTrace) -> DistillationRequest:
    return DistillationRequest.of(made, agent_id="ada")


def test_the_four_lines_of_a_success() -> None:
    made = request(
        trace(
            turns=(
                Turn(tokens=700, tools=("search_memory", "shell", "search_memory")),
                Turn(tokens=500, tools=("recall_memory", "browser")),
            )
        )
    )
    assert made.content.splitlines() == [
        "Task ID: t-1",
        "Outcome: completed successfully",
        "Trajectory: 2 turns, 1200 tokens, tools: browser, recall_memory, search_memory, shell; 5 tool calls",
        "Memory tool invocations: search_memory, search_memory, recall_memory",
    ]
    assert made.memory_tool_invocations == (
        MemoryToolName.SEARCH_MEMORY,
        MemoryToolName.SEARCH_MEMORY,
        MemoryToolName.RECALL_MEMORY,
    )


@pytest.mark.parametrize("reason", TerminationReason)
def test_every_way_to_end_has_its_line(reason: TerminationReason) -> None:
    silent = request(trace(termination_reason=reason)).outcome
    with_error = request(trace(termination_reason=reason, error_message="disk\n\0 full")).outcome
    if reason is TerminationReason.COMPLETED:
        assert silent == with_error == "completed successfully"
    else:
        # Somebody who stops a task, or puts it off, makes no failure of it.
        stopped = reason in {"cancelled", "shutdown", "parked"}
        assert silent == f"terminated: {reason}"
        assert with_error == (silent if stopped else "failed: disk full")


def test_a_trace_without_turns_says_so() -> None:
    assert request(trace()).content.splitlines()[2:] == ["Trajectory: no turns", "Memory tool invocations: none"]


def test_it_is_an_episodic_memory_with_one_tag_and_its_source() -> None:
    stored = request(trace()).store_request()
    assert stored.category is MemoryCategory.EPISODIC
    assert (stored.metadata.tags, stored.metadata.source) == (("distillation",), "distillation")


def test_the_longest_names_and_errors_fit_into_a_memory() -> None:
    long = "\U0001f9e0" * (MAX_KEY_CHARS - 4)
    tools = tuple(f"{number:04}{long}" for number in range(500))
    calls = ("recall_memory",) * 5_000
    made = request(
        trace(
            "\U0001f9e0" * MAX_KEY_CHARS,
            turns=(Turn(tools=tools), Turn(tools=calls)),
            termination_reason=TerminationReason.ERROR,
            error_message="\U0001f9e0" * MAX_NOTE_CHARS,
        )
    )
    content = made.store_request().content
    assert f" and {501 - MAX_LISTED_TOOLS} more; 5500 tool calls" in content
    assert content.endswith(f" and {5_000 - MAX_LISTED_CALLS} more")
    assert len(made.memory_tool_invocations) == 5_000


@given(made=TRACES)
def test_of_any_trace_a_memory_of_four_lines_and_an_experience_can_be_kept(made: ExecutionTrace) -> None:
    lines = request(made).store_request().content.splitlines()
    assert "\0" not in "".join(lines)
    assert [line.partition(":")[0] for line in lines] == [
        "Task ID", "Outcome", "Trajectory", "Memory tool invocations",
    ]  # fmt: skip
    kept = experience_of(made, trace_id="trace", agent_id="ada")
    assert kept.created_at == made.ended_at
    assert kept.reasoning_trace == made.steps
    assert made.prompt is None or kept.prompt == made.prompt
    assert made.output is None or kept.output == made.output


def test_what_the_engine_left_out_is_told_by_the_task_and_its_end() -> None:
    kept = experience_of(
        trace(task_description="It fails at row 4711.", termination_reason=TerminationReason.TIMEOUT),
        trace_id="trace",
        agent_id="ada",
    )
    assert (kept.prompt, kept.output) == ("Mend the nightly import\n\nIt fails at row 4711.", "terminated: timeout")
