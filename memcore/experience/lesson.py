"""What a model may say of an experience, and nothing else: no id, no tag, no scope."""

from typing import Annotated

from pydantic import Field

from memcore.frozen import Frozen, NotBlankStr

#: Longest sentence, in characters.
_MAX_CHARS = 1_000

Sentence = Annotated[NotBlankStr, Field(max_length=_MAX_CHARS)]


class Lesson(Frozen):
    """The form of the answer.

    Attributes:
        strategic_decisions: what worked and what did not, the most useful first; 1 to 12 sentences.
        applicable_contexts: when and where that holds; at most 8 sentences.
    """

    strategic_decisions: tuple[Sentence, ...] = Field(min_length=1, max_length=12)
    applicable_contexts: tuple[Sentence, ...] = Field(default=(), max_length=8)

    @property
    def chars(self) -> int:
        """Its length: that of its sentences, without the JSON around them."""
        return sum(map(len, (*self.strategic_decisions, *self.applicable_contexts)))
