"""How much a summary without a language model keeps."""

from pydantic import Field

from memcore.frozen import Frozen


class CondenseConfig(Frozen):
    """Tune the strategy ``condense``.

    Attributes:
        keep_share: bytes of a summary to the bytes of its memories, above 0 and below 1.
        target_tokens: a summary's memories have at most so many tokens, unless two of them have more.
    """

    keep_share: float = Field(default=0.5, gt=0.0, lt=1.0)
    target_tokens: int = Field(default=800, ge=50)
