"""Which executions teach: failures, successes, or both."""

from memcore.config.capture import CaptureConfig
from memcore.procedural.payloads import FailureAnalysisPayload, SuccessPayload

#: Percentiles go up to this.
_ALL = 100.0

#: A quality is a confidence on a scale of ten.
_QUALITY = 10.0


def takes(config: CaptureConfig, *, is_failure: bool) -> bool:
    """Tell whether executions of this kind teach."""
    return config.type in {"failure" if is_failure else "success", "hybrid"}


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
        return failure if takes(config, is_failure=True) else None
    return success if takes(config, is_failure=False) else None


def is_good_enough(config: CaptureConfig, *, confidence: float) -> bool:
    """Tell whether the lesson of a success reaches ``min_quality_score``: its quality is ten times its confidence."""
    # Rounded: 0.57 * 10 is a little less than 5.7.
    return round(confidence * _QUALITY, 9) >= config.min_quality_score


def is_among_the_best(config: CaptureConfig, *, reached: int, successes: int) -> bool:
    """Tell whether a success reaches ``success_quality_percentile`` of its agent's own, by the nearest rank.

    Args:
        config: the policy.
        reached: successes with at most its quality, itself included.
        successes: all successes with a quality.
    """
    return reached * _ALL >= config.success_quality_percentile * successes
