"""A lesson with all that code and people have decided about it."""

from typing import Self

from pydantic import Field, model_validator

from memcore.clock import BoundedTime
from memcore.models import Key
from memcore.procedural.lesson_text import LessonText
from memcore.procedural.scope import ProceduralMemoryScope


class ProceduralMemoryProposal(LessonText):
    """A lesson as it is kept.

    Attributes:
        scope: whom it is for.
        supersedes: ids of the lessons in whose place it stands.
        superseded_by: the lesson that stands in its place; agents are not shown one that has it.
        application_count: how often it was applied.
        last_applied_at: when it was applied last.
    """

    scope: ProceduralMemoryScope = ProceduralMemoryScope.AGENT
    supersedes: tuple[Key, ...] = ()
    superseded_by: Key | None = None
    application_count: int = Field(default=0, ge=0)
    last_applied_at: BoundedTime | None = None

    @model_validator(mode="after")
    def _no_circle(self) -> Self:
        if self.superseded_by is not None and self.superseded_by in self.supersedes:
            raise ValueError("superseded_by: stands in supersedes too")
        return self
