"""A trajectory: how one execution of a task went, without the texts of prompt and answer."""

from typing import Self

from pydantic import Field

from memcore import ids
from memcore.clock import BoundedTime
from memcore.execution_trace import ExecutionTrace, Recovery, TerminationReason
from memcore.frozen import Frozen, NotBlankText
from memcore.models import StoredKey

#: Fewest calls of tools that are a chain: a single one says nothing about the order of things.
CHAIN_CALLS = 2


class Trajectory(Frozen):
    """What skills are learned from; its raw experience and its memory have the same id.

    Attributes:
        outcome: why the task ended.
        error_category: None exactly of a success (see ExecutionTrace.failure).
        turn_count: turns taken.
        tokens: of all turns.
        tools: every tool called, in order, one name for each call.
        quality: 0 to 10, None when nobody looked.
    """

    id: StoredKey
    agent_id: StoredKey
    task_id: StoredKey
    task_title: NotBlankText
    task_description: NotBlankText | None = None
    task_type: StoredKey | None = None
    outcome: TerminationReason
    error_category: StoredKey | None = None
    error_message: NotBlankText | None = None
    recovery: Recovery | None = None
    retries: int = 0
    quality: float | None = Field(default=None, ge=0.0, le=10.0)
    turn_count: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    tools: tuple[StoredKey, ...] = ()
    started_at: BoundedTime | None = None
    ended_at: BoundedTime

    @property
    def tools_key(self) -> str | None:
        """A hash of the tools in the order of their calls, by which executions are compared; None below two calls."""
        return ids.tools_key(self.tools) if len(self.tools) >= CHAIN_CALLS else None

    @classmethod
    def of(cls, trace: ExecutionTrace, *, trace_id: str, agent_id: str) -> Self:
        """Return what is kept of a trace."""
        return cls(
            id=trace_id,
            agent_id=agent_id,
            task_id=trace.task_id,
            task_title=trace.task_title,
            task_description=trace.task_description,
            task_type=trace.task_type,
            outcome=trace.termination_reason,
            error_category=trace.failure,
            error_message=trace.error_message,
            recovery=trace.recovery,
            retries=trace.retries,
            quality=trace.quality,
            turn_count=len(trace.turns),
            tokens=trace.tokens,
            tools=trace.tools,
            started_at=trace.started_at,
            ended_at=trace.ended_at,
        )
