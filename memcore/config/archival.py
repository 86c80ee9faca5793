"""What happens to removed memories' full text, and how dense and chatty texts are told apart."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from memcore.config.added import Added
from memcore.frozen import Frozen, NotBlankStr


class DualModeConfig(Frozen):
    """Keep the facts of dense texts word for word, and summarise sparse texts.

    Attributes:
        enabled: whether ``dual_mode`` may run; needs summarization_model.
        dense_threshold: the score from which a text is dense; 0.0 makes all texts dense, 1.0 makes all sparse.
        summarization_model: the model that writes the summaries; a cheap model suffices.
        max_summary_tokens: the most tokens of a summary.
        max_facts: the most facts that are kept of a dense text.
        anchor_length: the characters that are kept at the start, the middle and the end of a dense text.
    """

    enabled: bool = False
    dense_threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    summarization_model: NotBlankStr | None = None
    max_summary_tokens: int = Field(default=200, ge=50, le=1000)
    max_facts: int = Field(default=20, ge=1, le=100)
    anchor_length: int = Field(default=150, ge=50, le=500)

    @model_validator(mode="after")
    def _model_when_enabled(self) -> Self:
        if self.enabled and self.summarization_model is None:
            raise ValueError("summarization_model must be set when enabled is true")
        return self


class ArchivalConfig(Frozen):
    """Archive what leaves the store; what a summary replaces is always archived.

    Attributes:
        enabled: whether the memories that the limit removes are archived too.
        age_threshold_days: the least age of a memory that the limit archives and that ``dual_mode`` consolidates.
        keep_days: days for which the archive keeps a memory; None keeps it for ever.
        dual_mode: how dense and sparse texts are treated.
    """

    enabled: bool = False
    age_threshold_days: int = Field(default=90, ge=1)
    keep_days: Annotated[int | None, Added("the archive outlives the journal and must not grow for ever")] = Field(
        default=None, ge=1
    )
    dual_mode: DualModeConfig = DualModeConfig()
