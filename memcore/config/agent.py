"""What one agent may set for its own memory."""

from typing import Self

from pydantic import Field, model_validator

from memcore.config.retention import RetentionRules
from memcore.frozen import Frozen
from memcore.models import MemoryLevel


class MemoryConfig(Frozen):
    """Set the level and the retention of one agent; they win over those of the company.

    Attributes:
        type: how long the agent's memories live.
        retention_days: the agent's default; None takes the company's. Must be None when type is none.
        retention_overrides: the agent's rules, at most one for a category.
    """

    type: MemoryLevel = MemoryLevel.SESSION
    retention_days: int | None = Field(default=None, ge=1)
    retention_overrides: RetentionRules = ()

    @model_validator(mode="after")
    def _nothing_to_retain(self) -> Self:
        if self.type is MemoryLevel.NONE and self.retention_days is not None:
            raise ValueError("retention_days must be null when type is none, for nothing is stored")
        return self
