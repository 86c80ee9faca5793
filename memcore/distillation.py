"""Captures a trace in three idempotent writes: the raw experience, a memory, then the trajectory."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Self

from memcore.clock import Clock, utc_now
from memcore.config.learning import ProceduralMemoryConfig
from memcore.ingest import WriteResult
from memcore.jobs import Dead, DistillPayload, Done, Outcome, Skipped, StoreItem
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.execution import ExecutionTrace
from memcore.models.experience import DetailedExperience
from memcore.models.memory import (
    DETAILED_TAG,
    DISTILLATION,
    BoundedTime,
    Key,
    MemoryCategory,
    MemoryLevel,
    MemoryMetadata,
    MemoryStoreRequest,
    experience_refusal,
    refusal,
)
from memcore.models.origin import OWN, Origin
from memcore.procedural.capture import takes

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
    """A finished task in short (memory-and-persistence, Distillation Capture); it was created when the task ended.

    Memory tools are listed in the order of their calls, one name for each call.
    """

    agent_id: Key
    task_id: Key
    trajectory_summary: NotBlankStr
    outcome: NotBlankStr
    memory_tool_invocations: tuple[MemoryToolName, ...] = ()
    created_at: BoundedTime

    @classmethod
    def of(cls, trace: ExecutionTrace, *, agent_id: str) -> Self:
        """Return the request that a trace makes."""
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
        metadata = MemoryMetadata(source=DISTILLATION, tags=(DISTILLATION,))
        return MemoryStoreRequest(category=MemoryCategory.EPISODIC, content=self.content, metadata=metadata)


def outcome_of(trace: ExecutionTrace) -> str:
    """Return how a task ended, in one line: a success, ``failed: <error>`` or ``terminated: <reason>``."""
    if trace.termination_reason.is_success:
        return "completed successfully"
    if trace.error_message is None or trace.termination_reason.is_interruption:
        return f"terminated: {trace.termination_reason}"
    error = _one_line(trace.error_message)
    return f"failed: {error[:MAX_ERROR_CHARS]}"


def _summary(trace: ExecutionTrace) -> str:
    if not trace.turns:
        return "no turns"
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


def experience_of(trace: ExecutionTrace, *, trace_id: str, agent_id: str, origin: Origin = OWN) -> DetailedExperience:
    """Return the experience; the task and its end fill in what the engine left out."""
    asked = trace.prompt or "\n\n".join(filter(None, (trace.task_title, trace.task_description)))
    return DetailedExperience(
        id=trace_id,
        agent_id=agent_id,
        prompt=asked,
        output=trace.output or outcome_of(trace),
        verification_feedback=trace.feedback,
        reasoning_trace=trace.steps,
        metadata=MemoryMetadata(source=DISTILLATION, tags=(DETAILED_TAG,)),
        created_at=trace.ended_at,
        source_task_id=trace.task_id,
        origin=origin,
    )


@dataclass(frozen=True, eq=False)
class Capture:
    """Writes the raw experience, then the memory, then the trajectory.

    The trajectory comes last and marks the capture as complete: a redelivered message finds it and writes nothing.
    After a crash before it, the next attempt finds the earlier writes by id and adds the rest. The row of a lesson is
    part of the trajectory's transaction, so that none is lost; another job draws the lesson. Without ``procedural``
    nobody could.

    Lessons outlive their session and their project. So agents of the levels session and project get the memory alone,
    which ends with them like any other; agents of level none get nothing.
    """

    ledger: Ledger
    store: Callable[[StoreItem], WriteResult]
    _: KW_ONLY
    level: MemoryLevel
    procedural: ProceduralMemoryConfig | None = None
    clock: Clock = utc_now

    def take(self, job: DistillPayload) -> Outcome:
        """Write what is not there yet; taking the same payload again after an error goes on where it stopped.

        Done counts what was written now, "lessons" being rows of lessons to be drawn. Dead says that the session or
        project is missing that the agent's level asks for.
        """
        level = self.ledger.agents.levels(job.company, [job.agent_id]).get(job.agent_id, self.level)
        if level is MemoryLevel.NONE:
            return Skipped(reason="level none: nothing is kept for this agent")
        if self.ledger.trajectories.get(job.company, job.trace_id) is not None:
            return Done(facts={"known": 1})
        outlives, origin = experience_refusal(level) is None, job.origin or OWN
        counts = {"experiences": 0}
        if outlives:
            experience = experience_of(job.trace, trace_id=job.trace_id, agent_id=job.agent_id, origin=origin)
            counts["experiences"] = int(self.ledger.experiences.append(job.company, experience))
        written = self.store(_memory(job))
        for field in written.refused.values():
            return Dead(reason=f"{field}: {refusal(field)}")
        counts["memories"] = len(written.stored)
        made = Trajectory.of(job.trace, trace_id=job.trace_id, agent_id=job.agent_id, origin=origin)
        lesson_at = self.clock() if self._teaches(made) else None
        counts["trajectories"] = int(
            outlives and self.ledger.trajectories.append(job.company, made, lesson_at=lesson_at)
        )
        if lesson_at is not None:
            counts["lessons"] = counts["trajectories"]
        return Done(facts=counts)

    def _teaches(self, trajectory: Trajectory) -> bool:
        config = self.procedural
        return config is not None and config.enabled and takes(config.capture, trajectory)


def _memory(job: DistillPayload) -> StoreItem:
    return StoreItem(
        id=job.trace_id,
        agent_id=job.agent_id,
        request=DistillationRequest.of(job.trace, agent_id=job.agent_id).store_request(),
        created_at=job.trace.ended_at,
        sent_at=job.sent_at,
        session_id=job.session_id,
        project_id=job.project_id,
        task_id=job.trace.task_id,
        origin=job.origin,
    )
