"""A lesson's form, its memory record and back, the form of a model's draft, and the log events.

The memory's text holds the lesson's texts, the metadata its confidence and tags, the payload the decisions about it:
so an agent finds it like any other memory, and reading it back loses nothing.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self, cast

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from memcore.backends.base import fresh_record
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import (
    COMPRESSED_TAG,
    CONDENSED_TAG,
    DETAILED_TAG,
    FALLBACK_TAG,
    LESSON_SECTIONS,
    MAX_KEY_CHARS,
    NON_INFERABLE_TAG,
    PROTECTED_FROM_CONSOLIDATION,
    SELF_EDITED_TAG,
    SYNTHESIZED_TAG,
    BoundedTime,
    Key,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    MemoryStoreRequest,
    NoNul,
)
from memcore.models.origin import OWN, Origin
from memcore.records import LESSON_KEY, Lineage, MemoryRecord
from memcore.untrusted_text import without_secrets

#: The tag of a lesson that comes from a success.
SUCCESS_TAG = "success-derived"

#: Most labels of one lesson, and the longest, in characters.
MAX_LABELS = 20
MAX_LABEL_CHARS = 64

#: Tags that code acts on; only code may set them.
RESERVED = frozenset(
    {
        *(NON_INFERABLE_TAG, SUCCESS_TAG, COMPRESSED_TAG, DETAILED_TAG, CONDENSED_TAG, SYNTHESIZED_TAG, FALLBACK_TAG),
        *(*PROTECTED_FROM_CONSOLIDATION, SELF_EDITED_TAG),
    }
)

# No colon: code reads "propagated:ada" and "speaker:ada".
_LABEL = re.compile(r"\w[\w .+#/-]*")


def is_label(tag: str) -> bool:
    """Whether a lesson's writer, a model most of all, may set this tag."""
    return (
        len(tag) <= MAX_LABEL_CHARS
        and _LABEL.fullmatch(tag) is not None
        and tag.casefold().strip() not in RESERVED
        and tag == tag.strip()
    )


def _checked(tag: str) -> str:
    if not is_label(tag):
        raise ValueError(f"must be no tag of memtend's own, without colons, of at most {MAX_LABEL_CHARS} characters")
    return tag


#: A tag that says what a lesson is about.
Label = Annotated[str, AfterValidator(_checked)]


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
    """A lesson in three tiers; an agent reads as much as it needs.

    First the discovery, one line by which it is found; then when it applies, what to do then and why; then the steps in
    order, a line each. The tags say what it is about, each once.
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


class ProceduralMemoryScope(StrEnum):
    """The reach of a lesson; only code and people widen it, a language model never does."""

    AGENT = "agent"
    ROLE = "role"
    DEPARTMENT = "department"
    ORG = "org"


class ProceduralMemoryProposal(LessonText):
    """A lesson as it is kept; agents are not shown a superseded one."""

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


class DisclosureTier(StrEnum):
    """How much of a lesson is shown."""

    DISCOVERY = "discovery"
    ACTIVATION = "activation"
    EXECUTION = "execution"


def disclosed(lesson: LessonText, tier: DisclosureTier) -> str:
    """Return the text of one tier: one line to choose by, the reasons, or the steps; none contains another."""
    match tier:
        case DisclosureTier.DISCOVERY:
            return lesson.discovery
        case DisclosureTier.ACTIVATION:
            return f"When: {lesson.condition}\nDo: {lesson.action}\nBecause: {lesson.rationale}"
        case DisclosureTier.EXECUTION:
            return numbered(lesson.execution_steps)


def numbered(steps: tuple[str, ...]) -> str:
    """Return the steps as a numbered list, a line each."""
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


#: The sections, in order, and the fields that they hold, named like them; the last has the steps.
*_TEXTS, _STEPS = LESSON_SECTIONS
_FIELDS = {name: name.lower() for name in _TEXTS}

_NAME = re.compile(rf"\[({'|'.join((*_FIELDS, _STEPS))})\]")

#: A line of a text that would be taken for a section's name gets one backslash more, and loses it when it is read.
_ESCAPED = re.compile(rf"\\+{_NAME.pattern}")

_STEP = re.compile(r"\d+\. (.+)")


def written(lesson: LessonText) -> str:
    """Return the memory's text; its metadata holds confidence and tags."""
    sections = [(name, _escaped(getattr(lesson, field))) for name, field in _FIELDS.items()]
    if lesson.execution_steps:
        sections.append((_STEPS, numbered(lesson.execution_steps)))
    return "\n\n".join(f"[{name}]\n{text}" for name, text in sections)


def read(content: str) -> dict[str, str | tuple[str, ...]] | None:
    """Return the fields of a lesson that the text holds, unchecked; None for another text."""
    sections = _split(content.split("\n"))
    if [name for name, _ in sections] not in ([*_FIELDS], [*_FIELDS, _STEPS]):
        return None
    fields: dict[str, str | tuple[str, ...]] = {"execution_steps": ()}
    for name, lines in sections:
        if name != _STEPS:
            fields[_FIELDS[name]] = "\n".join(line[1:] if _ESCAPED.fullmatch(line) else line for line in lines)
            continue
        steps = tuple(step[1] for line in lines if (step := _STEP.fullmatch(line)))
        if len(steps) < len(lines):
            return None
        fields["execution_steps"] = steps
    return fields


def _escaped(text: str) -> str:
    return "\n".join(
        f"\\{line}" if _NAME.fullmatch(line) or _ESCAPED.fullmatch(line) else line for line in text.split("\n")
    )


def _split(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        name = _NAME.fullmatch(line)
        if name is not None:
            if sections and sections[-1][1][-1:] == [""]:
                sections[-1][1].pop()
            sections.append((name[1], []))
        elif sections:
            sections[-1][1].append(line)
        else:
            return []
    return sections


_DECIDED_FIELDS = frozenset(ProceduralMemoryProposal.model_fields) - frozenset(LessonText.model_fields)


def record_of(
    proposal: ProceduralMemoryProposal,
    *,
    company: str,
    agent_id: str,
    task_id: str,
    is_success: bool,
    created_at: datetime,
    origin: Origin = OWN,
) -> MemoryRecord:
    """Return the memory of a lesson; the same lesson of the same task and origin has the same id."""
    source = f"{'success' if is_success else 'failure'}:{task_id}"[:MAX_KEY_CHARS]
    tags = (NON_INFERABLE_TAG, *((SUCCESS_TAG,) if is_success else ()), *proposal.tags)
    metadata = MemoryMetadata(source=source, confidence=proposal.confidence, tags=tags)
    request = MemoryStoreRequest(category=MemoryCategory.PROCEDURAL, content=written(proposal), metadata=metadata)
    record = fresh_record(agent_id, request, company=company, now=created_at, origin=origin)
    decided = proposal.model_dump(mode="json", include=set(_DECIDED_FIELDS))
    return replace(record, lineage=Lineage(task_id=task_id), extra={**record.extra, LESSON_KEY: decided})


def proposal_of(record: MemoryRecord) -> ProceduralMemoryProposal | None:
    """Return the lesson that a memory holds, or None when it holds something else."""
    # Only workers write it, so a lesson without it is none of ours.
    decided: object = record.extra.get(LESSON_KEY)
    texts = read(record.entry.content)
    if not isinstance(decided, Mapping) or texts is None:
        return None
    metadata = record.entry.metadata
    try:
        return ProceduralMemoryProposal.model_validate(
            {
                **{name: decided[name] for name in _DECIDED_FIELDS if name in decided},
                **texts,
                "confidence": metadata.confidence,
                # Tags that code set, and tags beyond the limit, are no part of the lesson.
                "tags": [tag for tag in metadata.tags if is_label(tag)][:MAX_LABELS],
            }
        )
    except ValidationError:
        return None


#: Longest message, in characters.
MAX_ERROR_CHARS = 200

#: What is read at all, so that a message of megabytes costs no more than any other.
_READ_CHARS = 2_000


def sanitised(message: str) -> str:
    """Return the message as one line of at most 200 characters, without control characters and apparent secrets."""
    line = " ".join(message[:_READ_CHARS].split())
    line = "".join(letter for letter in line if unicodedata.category(letter) not in {"Cc", "Cf", "Cs"})
    line = without_secrets(line)
    return line if len(line) <= MAX_ERROR_CHARS else f"{line[: MAX_ERROR_CHARS - 1]}…"


#: Fields that a model may not set: they are dropped and named, and the rest of the answer is read.
NOT_THE_MODELS = frozenset(
    {
        *(*ProceduralMemoryProposal.model_fields, *MemoryEntry.model_fields, *MemoryMetadata.model_fields),
        *("memory_id", "task_id", "company", "refused"),
    }
) - frozenset(LessonText.model_fields)


class ProposalDraft(LessonText):
    """A lesson as a model proposes it.

    A field or tag that a model may not set is dropped and named in ``refused``, in alphabetical order. An unknown
    field, or one that breaks a bound, makes the answer malformed.
    """

    refused: SkipJsonSchema[tuple[str, ...]] = Field(default=(), exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        answer = cast("Mapping[str, Any]", given)
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
