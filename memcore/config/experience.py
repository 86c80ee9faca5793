"""The compression of raw execution traces into strategic experience."""

from pydantic import Field

from memcore.frozen import Frozen, NotBlankStr


class ExperienceCompressorConfig(Frozen):
    """Compress raw experience (tier 1) into what agents see (tier 2).

    Attributes:
        enabled: whether raw experience is compressed; it is recorded in any case.
        model: the model that compresses; None takes ``memory.llm.model``.
        temperature: the sampling temperature.
        max_tokens: the most tokens of an answer.
        min_compression_ratio: the least share of the text that a compression must leave out; a smaller one is dropped.
            0.0 keeps all.
    """

    enabled: bool = False
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.3, ge=0.0, le=1.0)
    max_tokens: int = Field(default=1000, ge=100, le=4000)
    min_compression_ratio: float = Field(default=0.0, ge=0.0, lt=1.0)
