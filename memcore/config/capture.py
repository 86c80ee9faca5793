"""From which executions lessons are drawn."""

from typing import Literal

from pydantic import Field

from memcore.frozen import Frozen


class CaptureConfig(Frozen):
    """Choose the executions that teach.

    Attributes:
        type: failures, successes, or both.
        min_quality_score: least quality of a success, 0 to 10.
        success_quality_percentile: only successes at or above this percentile of the agent's own, 0 to 100.
    """

    type: Literal["failure", "success", "hybrid"] = "hybrid"
    min_quality_score: float = Field(default=8.0, ge=0.0, le=10.0)
    success_quality_percentile: float = Field(default=75.0, ge=0.0, le=100.0)
