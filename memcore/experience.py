"""Compresses an agent's raw experience to lessons: each is paid for once, and stored before it is marked.

The protocol of a compressor stands here, with the one that asks a model.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Protocol, Self

from pydantic import Field, ValidationError

from memcore import ids
from memcore.backends.protocol import BatchBackend
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.maintenance import ConsolidationConfig, ExperienceCompressorConfig
from memcore.errors import (
    AnswerMissingError,
    BudgetExceededError,
    MalformedAnswerError,
    ProviderError,
)
from memcore.jobs import Skipped, Step
from memcore.ledger.attempt import Lease, worked_slice
from memcore.ledger.erasure.reach import reach_learned
from memcore.ledger.ledger import Ledger
from memcore.llm.answer_cache import CachingModel
from memcore.llm.grounding import Grounds
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.execution import ChatMessage, prompt
from memcore.models.experience import CompressedExperience, DetailedExperience
from memcore.models.memory import (
    COMPRESSED_TAG,
    MemoryCategory,
    MemoryEntry,
    MemoryLevel,
    MemoryMetadata,
    experience_refusal,
)
from memcore.models.origin import OWN, Origin
from memcore.records import ORIGIN_KEY, Lineage, MemoryRecord
from memcore.telemetry.events import Event
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
            MalformedAnswerError: no usable answer came, or none that the experience bears out; asking again would not
                help.
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
    return prompt(_INSTRUCTIONS, content)


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


def _grounded(lesson: ExperienceLesson, experience: DetailedExperience, by: Attribution) -> ExperienceLesson:
    """Return the sentences that the experience bears out. Raises MalformedAnswerError where none of them is left."""
    grounds = Grounds([text for _, text, _ in _parts(experience)], instructions=_INSTRUCTIONS)
    fields: dict[str, tuple[str, ...]] = {}
    faults: dict[str, None] = {}
    for name in ExperienceLesson.model_fields:
        sentences: tuple[str, ...] = getattr(lesson, name)
        found = [(sentence, grounds.fault(sentence)) for sentence in sentences]
        fields[name] = tuple(sentence for sentence, fault in found if fault is None)
        faults |= dict.fromkeys(fault.value for _, fault in found if fault is not None)
    for fault in faults:
        _log.warning(Event.LLM_ANSWER_UNGROUNDED, extra={**by.logged, "reason": fault})
    if not fields["strategic_decisions"]:
        raise MalformedAnswerError(f"not kept: {next(iter(faults))}")
    return lesson.model_copy(update=fields)


#: The purpose that the account names.
PURPOSE = "system:memory:compress:episodic"

#: The least ratio: nothing is compressed to nothing.
_LEAST_RATIO = 0.01


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
        by = Attribution(company=self._company, agent_id=agent_id, run_id=None, purpose=PURPOSE)
        key = by.question_id(config.model, experience.id, self.version)
        lesson = _grounded(await ask_structured(self._model, request, ExperienceLesson, by=by, key=key), experience, by)
        # A longer lesson counts as not compressed.
        ratio = lesson.chars / raw_chars(experience)
        return CompressedExperience(
            id=_memory_id(experience, self, company=self._company),
            agent_id=agent_id,
            strategic_decisions=lesson.strategic_decisions,
            applicable_contexts=lesson.applicable_contexts,
            source_artifact_ids=(experience.id,),
            compression_ratio=min(max(ratio, _LEAST_RATIO), 1.0),
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


def record_of(experience: CompressedExperience, *, task_id: str | None = None, origin: Origin = OWN) -> MemoryRecord:
    """Return the memory of a lesson; its origin is that of what was compressed."""
    fields = experience.model_dump(mode="json", include=set(_CONTENT_FIELDS))
    entry = MemoryEntry(
        id=experience.id,
        agent_id=experience.agent_id,
        category=MemoryCategory.EPISODIC,
        content=json.dumps({key: fields[key] for key in _CONTENT_FIELDS}, ensure_ascii=False),
        metadata=experience.metadata,
        created_at=experience.created_at,
    )
    return MemoryRecord(entry=entry, lineage=Lineage(task_id=task_id), extra={ORIGIN_KEY: origin.stored()})


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


#: Experiences of one agent that are compressed at a time.
AT_A_TIME = 4

#: How long one job works for an agent before it lets others have a turn.
SLICE = timedelta(minutes=5)

#: Failures one after the other that end a run: the model is away, and every further question would only wait.
MAX_IN_A_ROW = 10

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CompressionService:
    """Compresses the raw experience of one company's agents.

    A model looks at an experience once: the ledger marks it also when the lesson is too weak or malformed. What a model
    did not answer stays raw for the next run. The newest come first, so that one which no model can answer does not
    block the others.
    """

    backend: BatchBackend
    ledger: Ledger
    policy: ConsolidationConfig
    _: KW_ONLY
    company: str
    level: MemoryLevel
    model: Model | None
    clock: Clock = utc_now
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        memory = context.policy.memory
        return cls(
            context.backend,
            context.ledger,
            memory.consolidation,
            company=context.company,
            level=memory.level,
            model=context.model,
            clock=context.clock,
        )

    async def run(self, agent_id: str) -> Step:
        """Compress what is raw for one slice of time; whatever happens, calling it again goes on where it stopped.

        Returns:
            Done: every raw experience was tried, or it is the next agent's turn; the facts say what became of them.
            Deferred: it waits for a budget, the end of a pause, or a store that is away.
            Skipped: switched off, no model, or an agent whose level keeps no experience.
            Dead: no run has asked for it.
        """
        if self.model is None:
            return Step(outcome=Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL"))
        compressor = LLMExperienceCompressor(
            CachingModel(self.model, self.ledger.answers),
            self.policy.experience_compressor,
            company=self.company,
            clock=self.clock,
        )
        return await worked_slice(
            self.ledger.compressions,
            self.company,
            ids.compression_id(company=self.company, agent_id=agent_id),
            agents=self.ledger.agents,
            is_enabled=self.policy.enabled,
            refusal=partial(self._refusal, agent_id),
            walk=partial(self._walk, agent_id, compressor),
        )

    def _refusal(self, agent_id: str) -> str | None:
        """Return why nothing of the agent is compressed; None when it is."""
        if not self.policy.experience_compressor.enabled:
            return "memory.consolidation.experience_compressor.enabled is false"
        level = self.ledger.agents.levels(self.company, [agent_id]).get(agent_id, self.level)
        if level is MemoryLevel.NONE or experience_refusal(level) is not None:
            return f"level {level}: what is learned would outlive the memories"
        return None

    async def _walk(self, agent_id: str, compressor: ExperienceCompressor, lease: Lease) -> tuple[Counter[str], bool]:
        """Return what became of how many experiences, and whether more wait for another slice."""
        store, until = self.ledger.experiences, self.monotonic() + SLICE.total_seconds()
        counts: Counter[str] = Counter()
        in_a_row = 0
        last: DetailedExperience | None = None
        while page := store.raw(self.company, agent_id, before=last, limit=AT_A_TIME):
            last = page[-1]
            lease.enter()
            became = await self._compress(page, compressor)
            counts.update(became)
            in_a_row = in_a_row + len(became) if set(became) == {"failed"} else 0
            if in_a_row >= MAX_IN_A_ROW:
                break
            if self.monotonic() >= until and set(counts) - {"failed", "elsewhere"}:
                return counts, True
        _log.info(Event.EXPERIENCE_NIGHT_COMPLETE, extra={"agent_id": agent_id, **counts})
        return counts, False

    async def _compress(self, page: Sequence[DetailedExperience], compressor: ExperienceCompressor) -> list[str]:
        """Return the outcome of each; an error of one waits for the others to end."""
        ids_of = {each.id: _memory_id(each, compressor, company=self.company) for each in page}
        agent_id = page[0].agent_id
        # A crash between keeping and marking leaves a memory that is there, or was there and has been removed since.
        kept = {record.entry.id for record in await self.backend.get_many(agent_id, list(ids_of.values()))}
        kept |= self.ledger.journal.tombstoned({ids_of[each.id]: each.created_at for each in page})
        became = await asyncio.gather(
            *(self._one(each, compressor, is_kept=ids_of[each.id] in kept) for each in page), return_exceptions=True
        )
        errors = [each for each in became if isinstance(each, BaseException)]
        if errors:
            # An error that stops the job comes before a budget that is spent.
            raise min(errors, key=lambda error: isinstance(error, BudgetExceededError))
        return [each for each in became if isinstance(each, str)]

    async def _one(self, experience: DetailedExperience, compressor: ExperienceCompressor, *, is_kept: bool) -> str:
        """Compress one, and return its outcome as a word."""
        if is_kept:
            self._mark(experience, compressed_as=_memory_id(experience, compressor, company=self.company))
            return "compressed"
        try:
            lesson = await compressor.compress(experience)
        except MalformedAnswerError as error:
            self._mark(experience, reason=str(error))
            _log.info(Event.EXPERIENCE_COMPRESS_MALFORMED, extra=_about(experience))
            return "malformed"
        except AnswerMissingError:
            return "elsewhere"
        except ProviderError as error:
            _log.warning(Event.EXPERIENCE_COMPRESS_FAILED, extra={**_about(experience), "error": type(error).__name__})
            return "failed"
        if 1.0 - lesson.compression_ratio < self.policy.experience_compressor.min_compression_ratio:
            self._mark(experience, reason=f"too weak: compressed to {lesson.compression_ratio:.0%} of it")
            _log.info(Event.EXPERIENCE_COMPRESS_WEAK, extra=_about(experience))
            return "weak"
        await self._keep(experience, lesson)
        _log.info(Event.EXPERIENCE_COMPRESS_COMPLETE, extra=_about(experience))
        return "compressed"

    async def _keep(self, experience: DetailedExperience, lesson: CompressedExperience) -> None:
        task = await self.backend.get_many(experience.agent_id, [experience.id])
        agent_id = experience.agent_id
        of_it = partial(reach_learned, self.ledger, self.company, agent_id, experience.id, task, experience=experience)
        of_it(learned=lesson.id)
        # Memory first, then the mark: a crash between the two costs one more look, and loses nothing.
        made = record_of(lesson, task_id=experience.source_task_id, origin=experience.origin)
        await self.backend.store_many([made])
        if self._mark(experience, compressed_as=lesson.id):
            # Behind the mark too: a distrust that comes later finds the memory by it.
            of_it(learned=lesson.id)
            return
        if self.ledger.experiences.get(self.company, experience.agent_id, experience.id) is None:
            # Its agent was erased meanwhile: what was learned goes with it.
            await self.backend.delete_many(experience.agent_id, [lesson.id])

    def _mark(
        self, experience: DetailedExperience, *, compressed_as: str | None = None, reason: str | None = None
    ) -> bool:
        return self.ledger.experiences.mark(
            self.company, experience.agent_id, experience.id, compressed_as=compressed_as, reason=reason
        )


def _memory_id(experience: DetailedExperience, compressor: ExperienceCompressor, *, company: str) -> str:
    return ids.compressed_id(
        company=company, agent_id=experience.agent_id, experience_id=experience.id, version=compressor.version
    )


def _about(experience: DetailedExperience) -> dict[str, str]:
    return {"agent_id": experience.agent_id, "experience_id": experience.id}
