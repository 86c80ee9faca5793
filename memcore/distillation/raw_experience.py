"""The raw experience in a trace: what was asked, what was answered, and the steps between."""

from memcore.distillation.request import DISTILLATION, outcome_of
from memcore.execution_trace import ExecutionTrace
from memcore.experience_models import DETAILED_TAG, DetailedExperience
from memcore.models import MemoryMetadata


def experience_of(trace: ExecutionTrace, *, trace_id: str, agent_id: str) -> DetailedExperience:
    """Return the experience; what the engine left out is told by the task itself and by how it ended."""
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
    )
