"""The limits of consolidation by a language model."""

from typing import Self

from pydantic import Field, model_validator

from memcore.frozen import Frozen


class LLMConsolidationConfig(Frozen):
    """Bound what the synthesis of a group sends and receives.

    Attributes:
        group_threshold: least size of a group; 3, because two entries leave one to merge with nothing.
        temperature: sampling temperature, 0 to 2.
        max_summary_tokens: longest summary, 50 or more.
        include_distillation_context: whether recent trajectories are shown to the model.
        max_trajectory_context_entries: how many of them, 1 or more.
        max_trajectory_chars_per_entry: characters of each, 50 or more.
        max_entry_input_chars: characters of each memory, 100 or more; at most the total.
        max_total_user_content_chars: characters of all memories together, 1000 or more.
        fallback_truncate_length: characters of each memory in a summary made without the model, 50 or more.
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
