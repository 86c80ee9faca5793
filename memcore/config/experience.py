"""The compression of raw execution traces into strategic experience."""

from pydantic import Field

from memcore.frozen import Frozen, NotBlankStr


class ExperienceCompressorConfig(Frozen):
    """Compress detailed experiences (tier 1) into what agents see (tier 2).

    Attributes:
        enabled: whether raw experience is compressed; it is recorded either way.
        model: the compressor's model; None takes the provider's default.
        temperature: sampling temperature, 0 to 1.
        max_tokens: longest answer, 100 to 4000.
        min_compression_ratio: the share of the text that a compression must leave out to be kept; 0.0 keeps all.
    """

    enabled: bool = False
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.3, ge=0.0, le=1.0)
    max_tokens: int = Field(default=1000, ge=100, le=4000)
    min_compression_ratio: float = Field(default=0.0, ge=0.0, lt=1.0)
