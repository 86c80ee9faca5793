"""Compresses an experience to a lesson: protocol, prompt, answer form, the model's compressor, the memory record."""

import json
from collections.abc import Iterator
from typing import Annotated, Protocol

from pydantic import Field, ValidationError

from memcore import ids
from memcore.clock import Clock, utc_now
from memcore.config.maintenance import ExperienceCompressorConfig
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.execution import ChatMessage, MessageRole
from memcore.models.experience import CompressedExperience, DetailedExperience
from memcore.models.memory import COMPRESSED_TAG, MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.records import Lineage, MemoryRecord
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted


class ExperienceCompressor(Protocol):
    """Compresses one experience at a time.

    Attributes:
        version: names the compressor; another version gives another answer.
    """

    @property
    def version(self) -> str:
        """Return the name that its results carry."""
        ...

    async def compress(self, experience: DetailedExperience) -> CompressedExperience:
        """Return the lesson; its id follows from the experience and the version.

        Raises:
            MalformedAnswerError: no usable answer came, and asking again would not help.
            ProviderError: the model did not answer.
            BudgetExceededError: the agent has nothing left today.
            AnswerMissingError: another worker asks about this experience now.
        """
        ...


#: The fence around each part of an experience.
TAG_EXPERIENCE = "experience-part"

#: Most characters of each part that the model reads: together 20,000, some 5,000 tokens. What is longer keeps its
#: beginning and its end, where tasks and results stand.
PROMPT_CHARS = 4_000
TRACE_CHARS = 8_000
OUTPUT_CHARS = 6_000
VERIFICATION_CHARS = 2_000

#: The beginning's share of a part that is too long.
_HEAD = 2 / 3

_INSTRUCTIONS = f"""\
You compress what an AI agent went through into what it can use the next time.
Answer with JSON of two keys and nothing else:
"strategic_decisions": what worked and what did not, 1 to 12 sentences, the most useful first, each clear by itself.
"applicable_contexts": when and where that holds, at most 8 sentences.
Be much shorter than what you read. Keep the names, numbers, commands and error messages that matter as they are.
Say nothing that does not stand there. Write in the language of the experience.
{untrusted_content_directive(TAG_EXPERIENCE)}"""


def messages_of(experience: DetailedExperience) -> tuple[ChatMessage, ...]:
    """Return the messages: the instructions, then the experience."""
    content = "\n\n".join(
        f"{title}:\n{wrap_untrusted(TAG_EXPERIENCE, clipped(text, most))}" for title, text, most in _parts(experience)
    )
    return (
        ChatMessage(role=MessageRole.SYSTEM, content=_INSTRUCTIONS),
        ChatMessage(role=MessageRole.USER, content=content),
    )


def raw_chars(experience: DetailedExperience) -> int:
    """Return the length of all texts of an experience, also of what the model does not read."""
    texts = (experience.prompt, experience.output, experience.verification_feedback or "", *experience.reasoning_trace)
    return sum(map(len, texts))


def clipped(text: str, most: int) -> str:
    """Return the text, or its beginning and its end with a note on what is left out; the note comes on top."""
    if len(text) <= most:
        return text
    head = int(most * _HEAD)
    left_out = len(text) - most
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[head + left_out :]}"


def _parts(experience: DetailedExperience) -> Iterator[tuple[str, str, int]]:
    yield "What the agent was asked", experience.prompt, PROMPT_CHARS
    if experience.reasoning_trace:
        yield "The steps that it took", "\n\n".join(experience.reasoning_trace), TRACE_CHARS
    yield "What it answered", experience.output, OUTPUT_CHARS
    if experience.verification_feedback is not None:
        yield "What a check said of the answer", experience.verification_feedback, VERIFICATION_CHARS


#: Longest sentence, in characters.
_MAX_CHARS = 1_000

Sentence = Annotated[NotBlankStr, Field(max_length=_MAX_CHARS)]


class ExperienceLesson(Frozen):
    """The form of the answer: what worked and what did not, the most useful first; and when and where that holds."""

    strategic_decisions: tuple[Sentence, ...] = Field(min_length=1, max_length=12)
    applicable_contexts: tuple[Sentence, ...] = Field(default=(), max_length=8)

    @property
    def chars(self) -> int:
        """Its length: that of its sentences, without the JSON around them."""
        return sum(map(len, (*self.strategic_decisions, *self.applicable_contexts)))


#: The purpose that the account names.
PURPOSE = "system:memory:compress:episodic"

#: The least and the largest ratio; nothing is compressed to nothing, and what grew counts as not compressed.
_LEAST_RATIO = 0.01
_LARGEST_RATIO = 1.0


class LLMExperienceCompressor:
    """Compresses experiences with a language model; give a caching one, so that a crash pays for no answer twice.

    The model reads the experience as data and writes two lists of sentences; ids, tags, owner and times are made here.
    """

    #: Raise it with any change of the prompt: the same experience is then another question.
    version = "llm-v1"

    def __init__(
        self, model: Model, config: ExperienceCompressorConfig, *, company: str, clock: Clock = utc_now
    ) -> None:
        self._model = model
        self._config = config
        self._company = company
        self._clock = clock

    async def compress(self, experience: DetailedExperience) -> CompressedExperience:
        """Return the lesson, its ratio the length of its sentences over that of all texts of the experience."""
        agent_id, config = experience.agent_id, self._config
        request = CompletionRequest(
            messages=messages_of(experience),
            model=config.model,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
        )
        key = ids.question_id(
            company=self._company,
            agent_id=agent_id,
            purpose=PURPOSE,
            model=config.model or "",
            about=(experience.id, self.version),
        )
        by = Attribution(company=self._company, agent_id=agent_id, run_id=None, purpose=PURPOSE)
        lesson = await ask_structured(self._model, request, ExperienceLesson, by=by, key=key)
        ratio = lesson.chars / raw_chars(experience)
        return CompressedExperience(
            id=ids.compressed_id(
                company=self._company, agent_id=agent_id, experience_id=experience.id, version=self.version
            ),
            agent_id=agent_id,
            strategic_decisions=lesson.strategic_decisions,
            applicable_contexts=lesson.applicable_contexts,
            source_artifact_ids=(experience.id,),
            compression_ratio=min(max(ratio, _LEAST_RATIO), _LARGEST_RATIO),
            compressor_version=self.version,
            metadata=MemoryMetadata(source=experience.id, tags=(COMPRESSED_TAG,)),
            created_at=self._clock(),
        )


#: Fields in the memory's text; the entry's own fields hold the rest.
_CONTENT_FIELDS = (
    "strategic_decisions",
    "applicable_contexts",
    "source_artifact_ids",
    "compression_ratio",
    "compressor_version",
)


def record_of(experience: CompressedExperience, *, task_id: str | None = None) -> MemoryRecord:
    """Return the memory of a lesson."""
    fields = experience.model_dump(mode="json", include=set(_CONTENT_FIELDS))
    entry = MemoryEntry(
        id=experience.id,
        agent_id=experience.agent_id,
        category=MemoryCategory.EPISODIC,
        content=json.dumps({key: fields[key] for key in _CONTENT_FIELDS}, ensure_ascii=False),
        metadata=experience.metadata,
        created_at=experience.created_at,
    )
    return MemoryRecord(entry=entry, lineage=Lineage(task_id=task_id))


def experience_of(entry: MemoryEntry) -> CompressedExperience | None:
    """Return the compressed experience that a memory holds, or None when it holds something else."""
    if COMPRESSED_TAG not in entry.metadata.tags:
        return None
    try:
        fields = json.loads(entry.content)
        return CompressedExperience.model_validate(
            {
                **{key: fields[key] for key in _CONTENT_FIELDS},
                "id": entry.id,
                "agent_id": entry.agent_id,
                "metadata": entry.metadata,
                "created_at": entry.created_at,
            }
        )
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
        # Any agent may put this tag on a memory of its own.
        return None
