"""What a lesson says: the part of a proposal that a language model may write."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from memcore.frozen import Frozen, NoNul, NotBlankStr
from memcore.procedural.label import MAX_LABELS, Label

#: Longest discovery, in characters: about 100 tokens.
DISCOVERY_CHARS = 600

#: Longest condition, action or rationale, in characters.
ACTIVATION_CHARS = 2_000

#: Most steps, and the longest, in characters.
MAX_STEPS = 50
STEP_CHARS = 500

#: Longest lesson, in bytes of UTF-8; with the names of its sections it stays below a memory's limit of 65,536.
MAX_LESSON_BYTES = 60_000


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ValueError("must not be blank")
    return line


def _unique(labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(labels))


# White space of a line becomes single spaces: a list of steps has one line for each.
_Discovery = Annotated[NotBlankStr, StringConstraints(max_length=DISCOVERY_CHARS), NoNul, AfterValidator(_one_line)]
_Step = Annotated[NotBlankStr, StringConstraints(max_length=STEP_CHARS), NoNul, AfterValidator(_one_line)]

_Paragraph = Annotated[NotBlankStr, StringConstraints(max_length=ACTIVATION_CHARS), NoNul]


class LessonText(Frozen):
    """A lesson in three tiers, of which an agent reads as much as it needs (see memcore.procedural.disclosure).

    Attributes:
        discovery: one line by which it is found; at most 600 characters.
        condition: when it applies; at most 2000 characters.
        action: what to do then; at most 2000 characters.
        rationale: why; at most 2000 characters.
        execution_steps: how, in order, a line each; at most 50 of at most 500 characters.
        confidence: 0.0 to 1.0.
        tags: what it is about; at most 20, each once.
    """

    discovery: _Discovery
    condition: _Paragraph
    action: _Paragraph
    rationale: _Paragraph
    execution_steps: tuple[_Step, ...] = Field(default=(), max_length=MAX_STEPS)
    confidence: float = Field(ge=0.0, le=1.0)
    tags: Annotated[tuple[Label, ...], Field(max_length=MAX_LABELS), AfterValidator(_unique)] = ()

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        texts = (self.discovery, self.condition, self.action, self.rationale, *self.execution_steps)
        size = sum(len(text.encode("utf-8")) for text in texts)
        if size > MAX_LESSON_BYTES:
            raise ValueError(f"execution_steps: the lesson has {size} bytes; the limit is {MAX_LESSON_BYTES}")
        return self
