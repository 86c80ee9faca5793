"""What a memory tells of a finished task: the reference's DistillationRequest, and its lines."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Self

from memcore.clock import BoundedTime
from memcore.execution_trace import ExecutionTrace
from memcore.frozen import Frozen, NotBlankStr
from memcore.models import Key, MemoryCategory, MemoryMetadata, MemoryStoreRequest

#: The source of a distillation, and its only tag.
DISTILLATION = "distillation"

#: Of a trace without turns.
NO_TURNS = "no turns"

#: Characters of an error message that a memory keeps; the trajectory keeps all of it.
MAX_ERROR_CHARS = 1_000

#: Names of tools that a memory lists, and calls of memory tools: with them its lines stay far below the 64 KiB that a
#: memory may have, whatever the names are.
MAX_LISTED_TOOLS = 32
MAX_LISTED_CALLS = 512


class MemoryToolName(StrEnum):
    """A tool by which an agent asks its memory."""

    SEARCH_MEMORY = "search_memory"
    RECALL_MEMORY = "recall_memory"


class DistillationRequest(Frozen):
    """A finished task in short (memory-and-persistence, Distillation Capture).

    Attributes:
        trajectory_summary: turns, tokens, tools and calls.
        outcome: how it ended, with the error of a failure.
        memory_tool_invocations: one for each call, in order.
        created_at: when the task ended.
    """

    agent_id: Key
    task_id: Key
    trajectory_summary: NotBlankStr
    outcome: NotBlankStr
    memory_tool_invocations: tuple[MemoryToolName, ...] = ()
    created_at: BoundedTime

    @classmethod
    def of(cls, trace: ExecutionTrace, *, agent_id: str) -> Self:
        """Return what is told of a trace."""
        known = frozenset(MemoryToolName)
        return cls(
            agent_id=agent_id,
            task_id=trace.task_id,
            trajectory_summary=_summary(trace),
            outcome=outcome_of(trace),
            memory_tool_invocations=tuple(MemoryToolName(tool) for tool in trace.tools if tool in known),
            created_at=trace.ended_at,
        )

    @property
    def content(self) -> str:
        """The text of the memory: four lines, whatever stands in the trace."""
        return (
            f"Task ID: {_one_line(self.task_id)}\n"
            f"Outcome: {self.outcome}\n"
            f"Trajectory: {self.trajectory_summary}\n"
            f"Memory tool invocations: {_listed(self.memory_tool_invocations, MAX_LISTED_CALLS) or 'none'}"
        )

    def store_request(self) -> MemoryStoreRequest:
        """Return the memory to store."""
        return MemoryStoreRequest(
            category=MemoryCategory.EPISODIC,
            content=self.content,
            metadata=MemoryMetadata(source=DISTILLATION, tags=(DISTILLATION,)),
        )


def outcome_of(trace: ExecutionTrace) -> str:
    """Return how a task ended, in one line: a success, ``failed: <error>`` or ``terminated: <reason>``."""
    if trace.termination_reason.is_success:
        return "completed successfully"
    if trace.error_message is None:
        return f"terminated: {trace.termination_reason}"
    error = _one_line(trace.error_message)
    return f"failed: {error[:MAX_ERROR_CHARS]}"


def _summary(trace: ExecutionTrace) -> str:
    if not trace.turns:
        return NO_TURNS
    tools = sorted(set(trace.tools))
    return (
        f"{len(trace.turns)} turns, {trace.tokens} tokens, "
        f"tools: {_listed([_one_line(tool) for tool in tools], MAX_LISTED_TOOLS) or 'none'}; "
        f"{len(trace.tools)} tool calls"
    )


def _listed(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _one_line(text: str) -> str:
    # No text of a trace may begin a line of its own and so say what it is not; and PostgreSQL's history takes no NUL.
    return " ".join(text.replace("\0", " ").split())
