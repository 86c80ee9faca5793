"""From an execution to a lesson that agents find: asked for, weighed, kept, and written down for people."""

import asyncio
import logging
from datetime import datetime

from memcore.backends.protocol import BatchBackend
from memcore.backends.record import MemoryRecord
from memcore.clock import Clock, utc_now
from memcore.config.procedural import ProceduralMemoryConfig
from memcore.errors import MemoryError, ProviderError  # noqa: A004  # the reference fixes the name
from memcore.insertion import Graves, insert
from memcore.llm.protocol import Model
from memcore.procedural.captured import Captured, CaptureOutcome
from memcore.procedural.events import ProceduralEvent
from memcore.procedural.lesson_record import record_of
from memcore.procedural.payloads import FailureAnalysisPayload, SuccessPayload
from memcore.procedural.proposal import ProceduralMemoryProposal
from memcore.procedural.proposer import ProceduralProposer
from memcore.procedural.skill_folder import SkillFolders
from memcore.procedural.strategy import chosen, is_good_enough

_log = logging.getLogger(__name__)


class ProceduralCapture:
    """Draw lessons from one company's executions.

    The same execution gives the same memory, however often it is told, if the model keeps its answers
    (memcore.experience.kept_model).

    Args:
        backend: where lessons are kept, as memories.
        model: who proposes.
        config: the policy.
        company: whose agents.
        graves: which memories were removed, and are not to rise again.
        skills: where lessons are written as skill folders too; None writes none.
        clock: the time.
    """

    def __init__(
        self,
        backend: BatchBackend,
        model: Model,
        config: ProceduralMemoryConfig,
        *,
        company: str,
        graves: Graves,
        skills: SkillFolders | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._backend = backend
        self._config = config
        self._company = company
        self._graves = graves
        self._skills = skills
        self._clock = clock
        self._proposer = ProceduralProposer(model, config, company=company)

    async def run(
        self,
        agent_id: str,
        *,
        failure: FailureAnalysisPayload | None = None,
        success: SuccessPayload | None = None,
        told_at: datetime | None = None,
    ) -> Captured:
        """Draw the lesson of one execution, if there is one.

        Args:
            agent_id: whose execution, and whose lesson.
            failure: what went wrong, if it had to be recovered from.
            success: what went well, if it did.
            told_at: when it was told, the same each time; None for now. A memory that was removed since stays removed.

        Raises:
            BudgetExceededError, AnswerMissingError: nothing was asked; come back later.
            MemoryError: the store is in trouble; come back, the answer is there already.
        """
        if not self._config.enabled:
            return Captured(outcome=CaptureOutcome.DISABLED)
        payload = chosen(self._config.capture, failure=failure, success=success)
        if payload is None:
            return Captured(outcome=CaptureOutcome.NOT_CHOSEN)
        try:
            proposed = await self._proposer.propose(agent_id, payload)
        except ProviderError as error:
            # A lesson less: the execution itself is over and told.
            _log.warning(ProceduralEvent.PROPOSER_FAILED, extra={"agent_id": agent_id, "error": type(error).__name__})
            return Captured(outcome=CaptureOutcome.REFUSED)
        if proposed.proposal is None:
            silence = CaptureOutcome.UNAVAILABLE if proposed.silence is None else CaptureOutcome(proposed.silence)
            return Captured(outcome=silence)
        gate = self._gate(proposed.proposal, agent_id, is_success=isinstance(payload, SuccessPayload))
        if gate is not None:
            return Captured(outcome=gate, proposal=proposed.proposal, refused=proposed.refused)
        record = record_of(
            proposed.proposal,
            company=self._company,
            agent_id=agent_id,
            task_id=payload.task_id,
            is_success=isinstance(payload, SuccessPayload),
            created_at=told_at or self._clock(),
        )
        return await self._keep(proposed.proposal, record, refused=proposed.refused)

    def _gate(self, proposal: ProceduralMemoryProposal, agent_id: str, *, is_success: bool) -> CaptureOutcome | None:
        facts = {"agent_id": agent_id, "confidence": proposal.confidence}
        if proposal.confidence < self._config.min_confidence:
            _log.info(ProceduralEvent.LOW_CONFIDENCE, extra=facts)
            return CaptureOutcome.LOW_CONFIDENCE
        if is_success and not is_good_enough(self._config.capture, confidence=proposal.confidence):
            _log.info(ProceduralEvent.LOW_QUALITY, extra=facts)
            return CaptureOutcome.LOW_QUALITY
        return None

    async def _keep(
        self, proposal: ProceduralMemoryProposal, record: MemoryRecord, *, refused: tuple[str, ...]
    ) -> Captured:
        memory_id = record.entry.id
        facts = {"agent_id": record.entry.agent_id, "memory_id": memory_id}
        try:
            buried = await insert(self._backend, self._graves, [record], sent={memory_id: record.entry.created_at})
        except MemoryError as error:
            _log.warning(ProceduralEvent.STORE_FAILED, extra={**facts, "error": type(error).__name__})
            raise
        if buried:
            _log.info(ProceduralEvent.BURIED, extra=facts)
            return Captured(outcome=CaptureOutcome.BURIED, proposal=proposal, refused=refused)
        _log.info(ProceduralEvent.STORED, extra=facts)
        skill = await self._write(proposal, record)
        return Captured(
            outcome=CaptureOutcome.STORED,
            memory_id=memory_id,
            proposal=proposal,
            refused=refused,
            skill=skill,
            skill_failures=int(skill is None and self._skills is not None),
        )

    async def _write(self, proposal: ProceduralMemoryProposal, record: MemoryRecord) -> str | None:
        """Return the name of the skill's folder; None when it was not written, which loses nothing."""
        if self._skills is None:
            return None
        facts = {"agent_id": record.entry.agent_id, "memory_id": record.entry.id}
        try:
            name = await asyncio.to_thread(
                self._skills.write, proposal, memory_id=record.entry.id, source=record.entry.metadata.source or ""
            )
        except OSError as error:
            _log.warning(ProceduralEvent.SKILL_FAILED, extra={**facts, "error": type(error).__name__})
            return None
        _log.info(ProceduralEvent.SKILL_WRITTEN, extra={**facts, "skill": name})
        return name
