"""Draws the lesson of an execution: which executions teach, the quality gate, the memory and the skill folder."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from memcore import errors
from memcore.backends.protocol import BatchBackend
from memcore.config.learning import CaptureConfig, ProceduralMemoryConfig
from memcore.errors import MalformedAnswerError, MemoryConfigError, ProviderError
from memcore.ingest import Tombstones, insert_unless_tombstoned
from memcore.ledger.learning.lessons import REPEATED, Lesson
from memcore.ledger.learning.trajectories import Trajectory
from memcore.llm.protocol import Model
from memcore.models.origin import OWN, Origin
from memcore.procedural.proposer import MAX_TOOL_CALLS, FailureAnalysisPayload, SuccessPayload, propose
from memcore.procedural.records import (
    SUCCESS_TAG,
    LessonText,
    ProceduralMemoryProposal,
    record_of,
    sanitised,
)
from memcore.procedural.skill_files import SkillFolders
from memcore.records import MemoryRecord
from memcore.retrieval.repetitions import repeats
from memcore.telemetry.events import Event


class CaptureOutcome(StrEnum):
    """The outcome of a capture."""

    STORED = "stored"
    #: The agent has a lesson that says the same of the same kind of task: that one counts this task too.
    REPEATED = REPEATED
    #: memory.procedural.enabled is false.
    DISABLED = "disabled"
    #: The policy learns from executions of another kind.
    NOT_CHOSEN = "not_chosen"
    MALFORMED = "malformed"
    UNAVAILABLE = "unavailable"
    #: The model's server refuses, and will again.
    REFUSED = "refused"
    LOW_CONFIDENCE = "low_confidence"
    LOW_QUALITY = "low_quality"
    #: The agent has done better often enough: capture.success_quality_percentile.
    BELOW_PERCENTILE = "below_percentile"
    #: It was stored before, and a run has removed it since.
    TOMBSTONED = "buried"
    #: The execution is kept no longer, or its agent was erased.
    GONE = "gone"
    #: The agent's level lets nothing outlive a session or a project.
    LEVEL = "level"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The result of a capture, with the lesson, if the model proposed one, whatever became of it.

    ``refused`` names the fields that the model tried to set and may not, ``skill`` the folder that was written.
    """

    outcome: CaptureOutcome
    memory_id: str | None = None
    proposal: ProceduralMemoryProposal | None = field(default=None, repr=False)
    refused: tuple[str, ...] = ()
    skill: str | None = None
    skill_failures: int = 0


#: Percentiles go up to this.
_ALL = 100.0

#: The scale of a quality; a confidence is 0 to 1.
_QUALITY = 10.0


def takes(config: CaptureConfig, trajectory: Trajectory) -> bool:
    """Whether this execution teaches; one that was interrupted does only if it had to be recovered from."""
    if trajectory.outcome.is_interruption and trajectory.recovery is None:
        return False
    return _is_chosen(config, is_failure=is_failure(trajectory))


def _is_chosen(config: CaptureConfig, *, is_failure: bool) -> bool:
    return config.type in {"failure" if is_failure else "success", "hybrid"}


def is_good_enough(config: CaptureConfig, *, confidence: float) -> bool:
    """Whether the lesson of a success reaches ``min_quality_score``: its quality is ten times its confidence."""
    # Rounded: 0.57 * 10 is a little less than 5.7.
    return round(confidence * _QUALITY, 9) >= config.min_quality_score


def is_among_the_best(config: CaptureConfig, *, reached: int, successes: int) -> bool:
    """Whether a success reaches ``success_quality_percentile`` of its agent's own, by the nearest rank.

    ``reached`` counts the successes with at most its quality, itself included.
    """
    return reached * _ALL >= config.success_quality_percentile * successes


def says_the_same(lesson: LessonText, first: LessonText, *, tasks: Sequence[str | None] = ()) -> bool:
    """Whether a lesson repeats another one, word by word: when it applies, what to do then, and each step.

    How it is found, and why it is so, may be said in any words. The ids of the tasks say nothing about the next one.
    """
    pairs = [(lesson.condition, first.condition), (lesson.action, first.action)]
    pairs += zip(lesson.execution_steps, first.execution_steps, strict=False)
    return len(lesson.execution_steps) <= len(first.execution_steps) and all(
        repeats(one, other) or repeats(other, one)
        for one, other in (tuple(_without(text, tasks) for text in pair) for pair in pairs)
    )


def _without(text: str, tasks: Sequence[str | None]) -> str:
    for task_id in filter(None, tasks):
        text = text.replace(task_id, "")
    return text


#: Gives a lesson its memory's id, and returns an earlier lesson if that is whose memory it is.
Settle = Callable[[ProceduralMemoryProposal, str], Lesson | None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ProceduralCapture:
    """Draws lessons from one company's executions.

    The same execution gives the same memory, however often it is captured, if the model keeps its answers
    (memcore.llm.answer_cache).
    """

    backend: BatchBackend
    model: Model
    config: ProceduralMemoryConfig
    _: KW_ONLY
    company: str
    tombstones: Tombstones
    skills: SkillFolders | None = None

    async def run(
        self,
        agent_id: str,
        payload: FailureAnalysisPayload | SuccessPayload,
        *,
        learned_at: datetime,
        settle: "Settle | None" = None,
        origin: Origin = OWN,
    ) -> Captured:
        """Draw the lesson of one execution, if there is one.

        ``learned_at`` is when it was first captured, the same each time: a memory that was removed since stays removed.
        ``settle`` returns an earlier lesson that this one repeats; without it each lesson becomes a memory. ``origin``
        is that of all that the model reads. After an error it can be called again; an answer that came is kept.
        """
        if not self.config.enabled:
            return Captured(outcome=CaptureOutcome.DISABLED)
        is_success = isinstance(payload, SuccessPayload)
        if not _is_chosen(self.config.capture, is_failure=not is_success):
            return Captured(outcome=CaptureOutcome.NOT_CHOSEN)
        try:
            draft = await propose(self.model, self.config, payload, company=self.company, agent_id=agent_id)
        except ProviderError as error:
            # A failed lesson must not fail the execution, which is over.
            return Captured(outcome=_outcome_of(error, agent_id))
        lesson = draft.proposal()
        drawn = Captured(outcome=CaptureOutcome.STORED, proposal=lesson, refused=draft.refused)
        gate = self._gate(lesson, agent_id, is_success=is_success)
        if gate is not None:
            return replace(drawn, outcome=gate)
        record = record_of(
            lesson,
            company=self.company,
            agent_id=agent_id,
            task_id=payload.task_id,
            is_success=is_success,
            created_at=learned_at,
            origin=origin,
        )
        first = None if settle is None else settle(lesson, record.entry.id)
        if first is None:
            return await self._keep(drawn, lesson, record, learned_at)
        return await self._repeat(drawn, lesson, record, first)

    async def _repeat(
        self, drawn: Captured, lesson: ProceduralMemoryProposal, record: MemoryRecord, first: Lesson
    ) -> Captured:
        """Leave the memory of the earlier lesson as it is; store it where its worker died, or somebody removed it."""
        agent_id, learned_at, memory_id = record.entry.agent_id, record.entry.created_at, first.memory_id or ""
        if not await self.backend.get_many(agent_id, [memory_id]):
            earlier = ProceduralMemoryProposal.model_validate_json(first.text or "", extra="ignore")
            again = record_of(
                earlier,
                company=self.company,
                agent_id=agent_id,
                task_id=first.task_id or "",
                is_success=SUCCESS_TAG in record.entry.metadata.tags,
                created_at=first.created_at,
                origin=first.origin,
            )
            if again.entry.id != memory_id:
                # The execution that taught it is kept no longer.
                return await self._keep(drawn, lesson, record, learned_at)
            drawn = await self._keep(drawn, earlier, again, learned_at)
            if drawn.memory_id is None:
                return drawn
        _log.info(Event.PROCEDURAL_MEMORY_ENTRY_REPEATED, extra={"agent_id": agent_id, "memory_id": memory_id})
        return replace(drawn, outcome=CaptureOutcome.REPEATED, memory_id=memory_id)

    def _gate(self, proposal: ProceduralMemoryProposal, agent_id: str, *, is_success: bool) -> CaptureOutcome | None:
        facts = {"agent_id": agent_id, "confidence": proposal.confidence}
        if proposal.confidence < self.config.min_confidence:
            _log.info(Event.PROCEDURAL_MEMORY_PROPOSAL_LOW_CONFIDENCE, extra=facts)
            return CaptureOutcome.LOW_CONFIDENCE
        if is_success and not is_good_enough(self.config.capture, confidence=proposal.confidence):
            _log.info(Event.PROCEDURAL_CAPTURE_QUALITY_BELOW_THRESHOLD, extra=facts)
            return CaptureOutcome.LOW_QUALITY
        return None

    async def _keep(
        self, drawn: Captured, lesson: ProceduralMemoryProposal, record: MemoryRecord, learned_at: datetime
    ) -> Captured:
        memory_id = record.entry.id
        facts = {"agent_id": record.entry.agent_id, "memory_id": memory_id}
        try:
            tombstoned = await insert_unless_tombstoned(
                self.backend, self.tombstones, [record], sent={memory_id: learned_at}
            )
        except errors.MemoryError as error:
            _log.warning(Event.PROCEDURAL_MEMORY_ENTRY_STORE_FAILED, extra={**facts, "error": type(error).__name__})
            raise
        if tombstoned:
            _log.info(Event.PROCEDURAL_MEMORY_ENTRY_BURIED, extra=facts)
            return replace(drawn, outcome=CaptureOutcome.TOMBSTONED)
        _log.info(Event.PROCEDURAL_MEMORY_ENTRY_STORED, extra=facts)
        skill = await self._write(lesson, record)
        is_missing = skill is None and self.skills is not None
        return replace(drawn, memory_id=memory_id, skill=skill, skill_failures=int(is_missing))

    async def _write(self, proposal: ProceduralMemoryProposal, record: MemoryRecord) -> str | None:
        """Return the name of the skill's folder; None when it was not written, which loses nothing."""
        if self.skills is None:
            return None
        facts = {"agent_id": record.entry.agent_id, "memory_id": record.entry.id}
        try:
            name = await asyncio.to_thread(
                self.skills.write, proposal, memory_id=record.entry.id, source=record.entry.metadata.source or ""
            )
        except (OSError, MemoryConfigError) as error:
            _log.warning(Event.PROCEDURAL_MEMORY_SKILL_MD_FAILED, extra={**facts, "error": type(error).__name__})
            return None
        _log.info(Event.PROCEDURAL_MEMORY_SKILL_MD_WRITTEN, extra={**facts, "skill": name})
        return name


def _outcome_of(error: ProviderError, agent_id: str) -> CaptureOutcome:
    if not error.is_retryable:
        _log.warning(
            Event.PROCEDURAL_MEMORY_PROPOSER_ERROR, extra={"agent_id": agent_id, "error": type(error).__name__}
        )
        return CaptureOutcome.REFUSED
    outcome = CaptureOutcome.MALFORMED if isinstance(error, MalformedAnswerError) else CaptureOutcome.UNAVAILABLE
    _log.warning(Event.PROCEDURAL_MEMORY_PROPOSAL_SKIPPED, extra={"agent_id": agent_id, "reason": outcome.value})
    return outcome


#: Of an execution that ended well after it had to be recovered from.
_RECOVERED = "recovered"


def is_failure(trajectory: Trajectory) -> bool:
    """Whether it failed, or had to be recovered from: that teaches as a failure, however well it ended."""
    return trajectory.error_category is not None or trajectory.recovery is not None


def failure_of(trajectory: Trajectory) -> FailureAnalysisPayload:
    """Return the proposer's input for an execution that went wrong."""
    recovery = trajectory.recovery
    most = None if recovery is None else recovery.max_retries
    same = ("task_id", "task_title", "task_description", "task_type", "error_message", "turn_count")
    return FailureAnalysisPayload(
        **{name: getattr(trajectory, name) for name in same},
        strategy_type=None if recovery is None else recovery.strategy,
        termination_reason=str(trajectory.outcome),
        tool_calls_made=trajectory.tools[:MAX_TOOL_CALLS],
        # Engines count the two by rules of their own, and one may pass the other.
        retry_count=trajectory.retries if most is None else min(trajectory.retries, most),
        max_retries=most,
        can_reassign=recovery is not None and recovery.can_reassign,
        error_category=trajectory.error_category or _RECOVERED,
        missing_capability=None if recovery is None else recovery.missing_capability,
    )


def success_of(trajectory: Trajectory, failures: Sequence[Trajectory] = ()) -> SuccessPayload:
    """Return the proposer's input for a success: its turns and calls, and what earlier attempts at the task failed at.

    Of a failure it has the category, the message, and the last tool called; no word of the conversation.
    """
    return SuccessPayload(
        task_id=trajectory.task_id,
        turn_count=trajectory.turn_count,
        tool_calls_made=trajectory.tools[:MAX_TOOL_CALLS],
        argument_shapes=trajectory.signatures,
        failed_before=tuple(text for each in failures if (text := sanitised(_failed(each)))),
    )


def _failed(trajectory: Trajectory) -> str:
    last = f" after {trajectory.tools[-1]}" if trajectory.tools else ""
    said = f": {trajectory.error_message}" if trajectory.error_message else ""
    return f"{trajectory.error_category}{last}{said}"
