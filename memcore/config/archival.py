"""What happens to removed memories' full text, and how dense and chatty texts are told apart."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from memcore.config.added import Added
from memcore.frozen import Frozen, NotBlankStr


class DualModeConfig(Frozen):
    """Preserve dense texts word by word and summarise chatty ones.

    Attributes:
        enabled: whether density decides; needs summarization_model.
        dense_threshold: score from which a text is dense; 0.0 makes all dense, 1.0 all sparse.
        summarization_model: the model of the summaries; a cheap one will do.
        max_summary_tokens: longest summary, 50 to 1000.
        max_facts: most facts kept from a dense text, 1 to 100.
        anchor_length: characters kept at start, middle and end of a dense text, 50 to 500.
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
    """Archive what leaves the store; what a summary replaces is archived always.

    Attributes:
        enabled: whether what the limit of memories removes is archived too.
        age_threshold_days: a younger memory that the limit removes is not archived; nor does the dual mode take it.
        keep_days: how long the archive keeps a memory; None for ever.
        dual_mode: see DualModeConfig.
    """

    enabled: bool = False
    age_threshold_days: int = Field(default=90, ge=1)
    keep_days: Annotated[
        int | None, Added("the archive outlives the journal, and what is kept for ever was never let go")
    ] = Field(default=None, ge=1)
    dual_mode: DualModeConfig = DualModeConfig()
