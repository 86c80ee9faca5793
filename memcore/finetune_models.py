"""The stages of a fine-tune run, in order, and what a run may be besides."""

from enum import StrEnum


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
