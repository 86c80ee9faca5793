"""Compresses an agent's raw experience: each is paid for once, and stored before it is marked."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum

from memcore import ids
from memcore.backends.protocol import BatchBackend
from memcore.clock import Clock, utc_now
from memcore.config.maintenance import ConsolidationConfig, ExperienceCompressorConfig
from memcore.errors import (
    AnswerMissingError,
    BudgetExceededError,
    MaintenancePausedError,
    MalformedAnswerError,
    ProviderError,
)
from memcore.experience.compressor import ExperienceCompressor, LLMExperienceCompressor, record_of
from memcore.jobs.outcomes import Done, Outcome, Skipped, Snooze
from memcore.kill_switch import KillSwitch
from memcore.ledger.ledger import Ledger
from memcore.llm.answer_cache import CachingModel
from memcore.llm.protocol import Model
from memcore.models.experience import CompressedExperience, DetailedExperience
from memcore.models.memory import MemoryLevel, experience_refusal


class ExperienceEvent(StrEnum):
    """A log event of the compression of experience."""

    COMPRESSED = "experience.compress.complete"
    #: The answer was not so much shorter than the experience as the policy asks for.
    WEAK = "experience.compress.weak"
    #: The model answered twice in no form that can be read.
    MALFORMED = "experience.compress.malformed"
    #: The model did not answer; the experience stays raw.
    FAILED = "experience.compress.failed"
    RUN_COMPLETED = "experience.night.complete"


#: Experiences of one agent that are compressed at a time.
AT_A_TIME = 4

#: How long one job works for an agent before it lets others have a turn.
SLICE = timedelta(minutes=5)

#: Wait of the rest: the job goes to the end of its queue.
NEXT_SLICE = timedelta(seconds=1)

#: Failures one after the other that end a run: the model is away, and every further question would only wait.
MAX_IN_A_ROW = 10

_log = logging.getLogger(__name__)


class CompressionService:
    """Compresses the raw experience of one company's agents.

    A model looks at an experience once: the ledger marks it also when the lesson is too weak or malformed. What a model
    did not answer stays raw for the next run. The newest come first, so that one which no model can answer does not
    block the others.
    """

    def __init__(
        self,
        backend: BatchBackend,
        ledger: Ledger,
        policy: ConsolidationConfig,
        *,
        company: str,
        level: MemoryLevel,
        model: Model | None,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._ledger = ledger
        self._policy = policy
        self._company = company
        self._level = level
        self._model = model
        self._clock = clock
        self._monotonic = monotonic

    async def run(self, agent_id: str) -> Outcome:
        """Compress what is raw; whatever happens, calling it again goes on where it stopped.

        Returns:
            Done: every raw experience was tried; the facts say what became of them.
            Snooze: the budget is spent until a time, or it is the next agent's turn.
            Skipped: switched off, paused, no model, or an agent whose level keeps no experience.
        """
        config = self._policy.experience_compressor
        if not config.enabled:
            return Skipped(reason="memory.consolidation.experience_compressor.enabled is false")
        if self._model is None:
            # The next run dispatches again.
            return Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL")
        level = self._ledger.agents.levels(self._company, [agent_id]).get(agent_id, self._level)
        if level is MemoryLevel.NONE or experience_refusal(level) is not None:
            return Skipped(reason=f"level {level}: what is learned would outlive the memories")
        compressor = LLMExperienceCompressor(
            CachingModel(self._model, self._ledger.answers), config, company=self._company, clock=self._clock
        )
        try:
            return await self._walk(agent_id, compressor)
        except MaintenancePausedError as error:
            return Skipped(reason=str(error))

    async def _walk(self, agent_id: str, compressor: ExperienceCompressor) -> Outcome:
        store, until = self._ledger.experiences, self._monotonic() + SLICE.total_seconds()
        switch = KillSwitch(self._ledger, company=self._company, agent_id=agent_id, is_enabled=self._policy.enabled)
        counts: Counter[str] = Counter()
        in_a_row = 0
        last: DetailedExperience | None = None
        while page := store.raw(self._company, agent_id, before=last, limit=AT_A_TIME):
            last = page[-1]
            switch.check()
            try:
                became = await self._compress(page, compressor)
            except BudgetExceededError as error:
                return Snooze(reason=str(error), delay=max(error.until - self._clock(), NEXT_SLICE))
            counts.update(became)
            in_a_row = in_a_row + len(became) if set(became) == {"failed"} else 0
            if in_a_row >= MAX_IN_A_ROW:
                break
            if self._monotonic() >= until and set(counts) - {"failed", "elsewhere"}:
                return Snooze(reason="more experience waits, and so do other agents", delay=NEXT_SLICE)
        _log.info(ExperienceEvent.RUN_COMPLETED, extra={"agent_id": agent_id, **counts})
        return Done(facts=dict(counts))

    async def _compress(self, page: Sequence[DetailedExperience], compressor: ExperienceCompressor) -> list[str]:
        """Return the outcome of each; an error of one waits for the others to end."""
        ids_of = {each.id: self._memory_id(each, compressor) for each in page}
        agent_id = page[0].agent_id
        # A crash between keeping and marking leaves a memory that is there, or was there and has been removed since.
        kept = {record.entry.id for record in await self._backend.get_many(agent_id, list(ids_of.values()))}
        kept |= self._ledger.journal.tombstoned({ids_of[each.id]: each.created_at for each in page})
        became = await asyncio.gather(
            *(self._one(each, compressor, is_kept=ids_of[each.id] in kept) for each in page), return_exceptions=True
        )
        errors = [each for each in became if isinstance(each, BaseException)]
        if errors:
            # What stops the job for a reason of its own comes before a budget that is spent.
            raise min(errors, key=lambda error: isinstance(error, BudgetExceededError))
        return [each for each in became if isinstance(each, str)]

    async def _one(self, experience: DetailedExperience, compressor: ExperienceCompressor, *, is_kept: bool) -> str:
        """Compress one, and return its outcome as a word."""
        if is_kept:
            self._mark(experience, compressed_as=self._memory_id(experience, compressor))
            return "compressed"
        try:
            lesson = await compressor.compress(experience)
        except MalformedAnswerError as error:
            self._mark(experience, reason=str(error))
            _log.info(ExperienceEvent.MALFORMED, extra=_about(experience))
            return "malformed"
        except AnswerMissingError:
            return "elsewhere"
        except ProviderError as error:
            _log.warning(ExperienceEvent.FAILED, extra={**_about(experience), "error": type(error).__name__})
            return "failed"
        if 1.0 - lesson.compression_ratio < self._policy.experience_compressor.min_compression_ratio:
            self._mark(experience, reason=f"too weak: compressed to {lesson.compression_ratio:.0%} of it")
            _log.info(ExperienceEvent.WEAK, extra=_about(experience))
            return "weak"
        await self._keep(experience, lesson)
        _log.info(ExperienceEvent.COMPRESSED, extra=_about(experience))
        return "compressed"

    async def _keep(self, experience: DetailedExperience, lesson: CompressedExperience) -> None:
        # Memory first, then the mark: a crash between the two costs one more look, and loses nothing.
        await self._backend.store_many([record_of(lesson, task_id=experience.source_task_id)])
        if self._mark(experience, compressed_as=lesson.id):
            return
        if self._ledger.experiences.get(self._company, experience.agent_id, experience.id) is None:
            # Its agent was erased meanwhile: what was learned goes with it.
            await self._backend.delete_many(experience.agent_id, [lesson.id])

    def _mark(
        self, experience: DetailedExperience, *, compressed_as: str | None = None, reason: str | None = None
    ) -> bool:
        return self._ledger.experiences.mark(
            self._company, experience.agent_id, experience.id, compressed_as=compressed_as, reason=reason
        )

    def _memory_id(self, experience: DetailedExperience, compressor: ExperienceCompressor) -> str:
        return ids.compressed_id(
            company=self._company,
            agent_id=experience.agent_id,
            experience_id=experience.id,
            version=compressor.version,
        )


def _about(experience: DetailedExperience) -> dict[str, str]:
    return {"agent_id": experience.agent_id, "experience_id": experience.id}


def wants_compression(ledger: Ledger, config: ExperienceCompressorConfig, *, company: str, agent_id: str) -> bool:
    """Whether to dispatch the compression of this agent's experience; reads one index.

    Raises MemoryRetrievalError, MemoryConnectionError.
    """
    return config.enabled and ledger.experiences.has_raw(company, agent_id)
