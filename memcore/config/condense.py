"""How much a summary without a language model keeps."""

from pydantic import Field

from memcore.frozen import Frozen


class CondenseConfig(Frozen):
    """Bound the summaries of the ``condense`` strategy.

    Attributes:
        keep_share: the bytes of a summary, as a share of the bytes of its memories.
        target_tokens: the most tokens of the memories behind one summary, unless two memories have more.
    """

    keep_share: float = Field(default=0.5, gt=0.0, lt=1.0)
    target_tokens: int = Field(default=800, ge=50)
