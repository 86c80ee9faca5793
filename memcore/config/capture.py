"""From which executions lessons are drawn."""

from typing import Literal

from pydantic import Field

from memcore.frozen import Frozen


class CaptureConfig(Frozen):
    """Choose the executions from which lessons are drawn.

    Attributes:
        type: failures, successes, or both.
        min_quality_score: the least quality score of a success.
        success_quality_percentile: only successes at or above this percentile of the agent's own scores count.
    """

    type: Literal["failure", "success", "hybrid"] = "hybrid"
    min_quality_score: float = Field(default=8.0, ge=0.0, le=10.0)
    success_quality_percentile: float = Field(default=75.0, ge=0.0, le=100.0)
