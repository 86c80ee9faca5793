"""The limits of consolidation by a language model."""

from typing import Self

from pydantic import Field, model_validator

from memcore.frozen import Frozen


class LLMConsolidationConfig(Frozen):
    """Bound what one summary by a language model sends and receives.

    Attributes:
        group_threshold: the fewest memories in a group; of two, one would be merged with nothing.
        temperature: the sampling temperature.
        max_summary_tokens: the most tokens of a summary.
        include_distillation_context: whether the model sees recent trajectories.
        max_trajectory_context_entries: the most trajectories that it sees.
        max_trajectory_chars_per_entry: the most characters of each trajectory.
        max_entry_input_chars: the most characters of each memory; not above max_total_user_content_chars.
        max_total_user_content_chars: the most characters of all memories together.
        fallback_truncate_length: the characters of each memory in a summary that is made without the model.
    """

    group_threshold: int = Field(default=3, ge=3)
    temperature: float = Field(default=0.3, ge=0.0, le=2.0)
    max_summary_tokens: int = Field(default=500, ge=50)
    include_distillation_context: bool = True
    max_trajectory_context_entries: int = Field(default=5, ge=1)
    max_trajectory_chars_per_entry: int = Field(default=500, ge=50)
    max_entry_input_chars: int = Field(default=2000, ge=100)
    max_total_user_content_chars: int = Field(default=20_000, ge=1000)
    fallback_truncate_length: int = Field(default=200, ge=50)

    @model_validator(mode="after")
    def _entry_within_total(self) -> Self:
        if self.max_entry_input_chars > self.max_total_user_content_chars:
            raise ValueError("max_entry_input_chars must not exceed max_total_user_content_chars")
        return self
