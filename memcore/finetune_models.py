"""The stages of a fine-tune run, in order, and what a run may be besides."""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from memcore.frozen import Frozen


class FineTuneStage(StrEnum):
    """Where a run is; five stages do work, the others are its beginning and its ends."""

    IDLE = "idle"
    GENERATING_DATA = "generating_data"
    MINING_NEGATIVES = "mining_negatives"
    TRAINING = "training"
    EVALUATING = "evaluating"
    DEPLOYING = "deploying"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_end(self) -> bool:
        """Whether nothing follows."""
        return self in {FineTuneStage.COMPLETE, FineTuneStage.FAILED, FineTuneStage.CANCELLED}


#: The stages that do work, in order.
STAGES = (
    FineTuneStage.GENERATING_DATA,
    FineTuneStage.MINING_NEGATIVES,
    FineTuneStage.TRAINING,
    FineTuneStage.EVALUATING,
    FineTuneStage.DEPLOYING,
)


class FineTuneStatus(Frozen):
    """How far fine-tuning is at one moment.

    Attributes:
        run_id: which run; None where none is active.
        stage: the stage in work, or next; idle without a run; of one that has ended, how.
        progress: of the stage in work, 0 to 1; None while nobody has told any.
        error: why it failed, or was cancelled; None otherwise.
    """

    run_id: str | None = None
    stage: FineTuneStage = FineTuneStage.IDLE
    progress: float | None = Field(default=None, ge=0.0, le=1.0)
    error: str | None = None

    @model_validator(mode="after")
    def _state_holds_together(self) -> Self:
        is_idle = self.stage is FineTuneStage.IDLE
        if is_idle is not (self.run_id is None) or (is_idle and self.progress is not None):
            raise ValueError("stage: is idle exactly where there is no run")
        if self.stage is FineTuneStage.FAILED and self.error is None:
            raise ValueError("error: a failed run says why")
        if self.stage not in {FineTuneStage.FAILED, FineTuneStage.CANCELLED} and self.error is not None:
            raise ValueError("error: only a run that failed or was cancelled has one")
        return self
