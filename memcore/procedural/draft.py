"""The form in which a language model answers, and what it may not say in it."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from memcore.models import MemoryEntry, MemoryMetadata
from memcore.procedural.label import is_label
from memcore.procedural.lesson_text import LessonText
from memcore.procedural.proposal import ProceduralMemoryProposal

#: Fields of a kept lesson and of its memory that are not the model's to set: they are dropped by name, and the rest
#: of the answer is read as if they were not there.
NOT_THE_MODELS = frozenset(
    {
        *(*ProceduralMemoryProposal.model_fields, *MemoryEntry.model_fields, *MemoryMetadata.model_fields),
        *("memory_id", "task_id", "company", "refused"),
    }
) - frozenset(LessonText.model_fields)


class ProposalDraft(LessonText):
    """A lesson as a model proposes it.

    A field that is not the model's to set, and a tag that only code gives, are dropped, and named in ``refused``; a
    field that nobody knows makes the answer malformed, as does one that breaks a bound.

    Attributes:
        refused: the names of the fields that were dropped, in alphabetical order; "tags" if some of them were.
    """

    refused: SkipJsonSchema[tuple[str, ...]] = Field(default=(), exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, told: object) -> object:
        if not isinstance(told, Mapping):
            return told
        answer = cast("Mapping[str, Any]", told)
        kept = {name: value for name, value in answer.items() if name not in NOT_THE_MODELS}
        refused = answer.keys() - kept.keys()
        tags = kept.get("tags")
        if isinstance(tags, list | tuple):
            every = cast("list[object]", tags)
            kept["tags"] = [tag for tag in every if not isinstance(tag, str) or is_label(tag)]
            refused |= {"tags"} if len(kept["tags"]) < len(every) else set()
        return {**kept, "refused": tuple(sorted(refused))}

    def proposal(self) -> ProceduralMemoryProposal:
        """Return the lesson, private to its agent and never applied."""
        return ProceduralMemoryProposal.model_validate(self.model_dump())
