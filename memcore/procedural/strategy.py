"""Which executions teach: failures, successes, or both."""

from memcore.config.capture import CaptureConfig
from memcore.procedural.payloads import FailureAnalysisPayload, SuccessPayload

#: A quality is a confidence on a scale of ten.
_QUALITY = 10.0


def chosen(
    config: CaptureConfig, *, failure: FailureAnalysisPayload | None, success: SuccessPayload | None
) -> FailureAnalysisPayload | SuccessPayload | None:
    """Return what the proposer is asked about, or None for an execution that does not teach.

    An execution that had to be recovered from is a failure, and teaches as one or not at all, however well it ended.

    Args:
        config: the policy.
        failure: the failure, if the execution had to be recovered from.
        success: the success, if it ended well.
    """
    if failure is not None:
        return failure if config.type in {"failure", "hybrid"} else None
    return success if config.type in {"success", "hybrid"} else None


def is_good_enough(config: CaptureConfig, *, confidence: float) -> bool:
    """Tell whether the lesson of a success reaches ``min_quality_score``: its quality is ten times its confidence."""
    # Rounded: 0.57 * 10 is a little less than 5.7.
    return round(confidence * _QUALITY, 9) >= config.min_quality_score
