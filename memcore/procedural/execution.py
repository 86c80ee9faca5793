"""What a trajectory tells the proposer: how it went, and never a word of prompt, answer or steps."""

from memcore.ledger.trajectory import Trajectory
from memcore.procedural.payloads import MAX_TOOL_CALLS, FailureAnalysisPayload, SuccessPayload

#: Of an execution that ended well after it had to be recovered from.
_RECOVERED = "recovered"


def is_failure(trajectory: Trajectory) -> bool:
    """Tell whether it failed, or had to be recovered from, which teaches as a failure however well it ended."""
    return trajectory.error_category is not None or trajectory.recovery is not None


def failure_of(trajectory: Trajectory) -> FailureAnalysisPayload:
    """Return what is told of an execution that went wrong."""
    recovery = trajectory.recovery
    most = None if recovery is None else recovery.max_retries
    return FailureAnalysisPayload(
        task_id=trajectory.task_id,
        task_title=trajectory.task_title,
        task_description=trajectory.task_description,
        task_type=trajectory.task_type,
        error_message=trajectory.error_message,
        strategy_type=None if recovery is None else recovery.strategy,
        termination_reason=str(trajectory.outcome),
        turn_count=trajectory.turn_count,
        tool_calls_made=trajectory.tools[:MAX_TOOL_CALLS],
        # Engines count the two by rules of their own, and one may pass the other.
        retry_count=trajectory.retries if most is None else min(trajectory.retries, most),
        max_retries=most,
        can_reassign=recovery is not None and recovery.can_reassign,
        error_category=trajectory.error_category or _RECOVERED,
        missing_capability=None if recovery is None else recovery.missing_capability,
    )


def success_of(trajectory: Trajectory) -> SuccessPayload:
    """Return what is told of an execution that went well: its turns and its tools."""
    return SuccessPayload(
        task_id=trajectory.task_id,
        turn_count=trajectory.turn_count,
        tool_calls_made=trajectory.tools[:MAX_TOOL_CALLS],
    )
