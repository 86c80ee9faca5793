"""Draws the lesson of one task once, pays for it once, and records its outcome."""

import logging
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Self

from memcore.backends.protocol import BatchBackend
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.learning import ProceduralMemoryConfig
from memcore.errors import MemoryNotFoundError
from memcore.jobs import Deferred, Done, Outcome, Skipped
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import LEASE_RENEWAL, Attempt, RetryPolicy
from memcore.ledger.erasure.reach import reach_learned
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.llm.answer_cache import CachingModel
from memcore.llm.protocol import Model
from memcore.models.memory import MemoryLevel, experience_refusal
from memcore.models.origin import Origin
from memcore.procedural.capture import (
    Captured,
    CaptureOutcome,
    ProceduralCapture,
    failure_of,
    is_among_the_best,
    is_failure,
    says_the_same,
    success_of,
    takes,
)
from memcore.procedural.proposer import MAX_FAILED_BEFORE, FailureAnalysisPayload, SuccessPayload
from memcore.procedural.records import LessonText, ProceduralMemoryProposal
from memcore.procedural.skill_files import SkillFolders
from memcore.telemetry.events import Event

#: A lesson is given up after more than three days.
RETRY = RetryPolicy(attempts=21, first_delay=timedelta(minutes=1), longest_delay=timedelta(hours=6))

#: Outcomes that a later try may change: a server that is away, or that refuses until a person sets its key right.
_PASSING = frozenset({CaptureOutcome.UNAVAILABLE, CaptureOutcome.REFUSED})

_log = logging.getLogger(__name__)


def _text_of(proposal: ProceduralMemoryProposal) -> str:
    return proposal.model_dump_json(include=set(LessonText.model_fields))


@dataclass(frozen=True, eq=False)
class LearningService:
    """Draws the lessons that wait in the ledger.

    A lesson that must wait does so as a work item; its message ends, and the sweep dispatches it in time.
    """

    backend: BatchBackend
    ledger: Ledger
    config: ProceduralMemoryConfig
    _: KW_ONLY
    company: str
    level: MemoryLevel
    model: Model | None
    skills: SkillFolders | None = None
    clock: Clock = utc_now
    renewal: timedelta = LEASE_RENEWAL

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        memory, skills = context.policy.memory, context.policy.memory.procedural.skill_md_directory
        return cls(
            context.backend,
            context.ledger,
            memory.procedural,
            company=context.company,
            level=memory.level,
            model=context.model,
            skills=None
            if skills is None
            else SkillFolders((context.settings.home / skills).resolve(), company=context.company),
            clock=context.clock,
        )

    async def extract_lesson(self, lesson_id: str) -> Outcome:
        """Draw a lesson that waits; doing it again draws nothing twice.

        Returns:
            Done: its row has an outcome, which is the one fact.
            Deferred: it waits, for a budget, another worker's question, the end of a pause, or a model that does not
                answer or refuses.
            Skipped: nothing to draw now; the sweep dispatches it again where it must.
            Dead: it is unknown, or its attempts are used up.
        """
        if self.model is None:
            return Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL")
        lessons, switch = self.ledger.lessons, self._check_switch
        with Attempt(lessons, self.company, lesson_id, retry=RETRY, switch=switch, renewal=self.renewal) as attempt:
            lesson = attempt.claim()
            captured = await self._captured(lesson, self.model)
            attempt.outcome = await self._ended(lesson, attempt.token, captured)
        return attempt.outcome

    def _check_switch(self, lesson: Lesson) -> None:
        # Lessons have a switch of their own in the policy, and are drawn also where runs are off.
        check_kill_switch(self.ledger.agents, self.company, lesson.agent_id)

    async def _captured(self, lesson: Lesson, model: Model) -> Captured:
        trajectory = self.ledger.trajectories.get(self.company, lesson.lesson_id)
        if trajectory is None:
            return Captured(outcome=CaptureOutcome.GONE)
        refusal = self._refusal(trajectory)
        if refusal is not None:
            return Captured(outcome=refusal)
        capture = ProceduralCapture(
            self.backend,
            CachingModel(model, self.ledger.answers),
            self.config,
            company=self.company,
            tombstones=self.ledger.journal,
            skills=self.skills,
        )
        origin = trajectory.origin
        if is_failure(trajectory):
            payload: FailureAnalysisPayload | SuccessPayload = failure_of(trajectory)
        else:
            before = self.ledger.trajectories.failures_before(self.company, trajectory, limit=MAX_FAILED_BEFORE)
            payload, origin = success_of(trajectory, before), Origin.of(each.origin for each in (trajectory, *before))

        agent_id, company = lesson.agent_id, self.company
        task = await self.backend.get_many(agent_id, [lesson.lesson_id])

        def settle(proposal: ProceduralMemoryProposal, memory_id: str) -> Lesson | None:
            distrusted = self.ledger.hidden.of(company).distrusted.get(agent_id, ())

            def is_repeated(first: Lesson) -> bool:
                # Else what this one says would be hidden with what others wrote.
                if not first.origin.is_within(origin) or first.memory_id in distrusted:
                    return False
                earlier = LessonText.model_validate_json(first.text or "", extra="ignore")
                return says_the_same(proposal, earlier, tasks=(trajectory.task_id, first.task_id))

            first = self.ledger.lessons.settle(
                company,
                lesson.lesson_id,
                lesson.token or "",
                memory_id=memory_id,
                confidence=proposal.confidence,
                text=_text_of(proposal),
                repeats=is_repeated,
                origin=origin,
            )
            if first.lesson_id != lesson.lesson_id:
                return first
            # Behind the row: a distrust that comes later finds the memory by it.
            reach_learned(self.ledger, company, agent_id, lesson.lesson_id, task, learned=first.memory_id or memory_id)
            return None

        learned_at = lesson.created_at
        return await capture.run(agent_id, payload, learned_at=learned_at, settle=settle, origin=origin)

    def _refusal(self, trajectory: Trajectory) -> CaptureOutcome | None:
        """Return why no model is asked about an execution, or None when one is."""
        agent_id, quality = trajectory.agent_id, trajectory.quality
        if not takes(self.config.capture, trajectory):
            # It was opened by an earlier release, or under another policy.
            return CaptureOutcome.NOT_CHOSEN
        level = self.ledger.agents.levels(self.company, [agent_id]).get(agent_id, self.level)
        if level is MemoryLevel.NONE or experience_refusal(level) is not None:
            return CaptureOutcome.LEVEL
        if quality is None or is_failure(trajectory):
            return None
        if quality < self.config.capture.min_quality_score:
            return CaptureOutcome.LOW_QUALITY
        since = self.clock() - timedelta(days=self.config.evolver.keep_days)
        reached, successes = self.ledger.trajectories.quality_rank(self.company, agent_id, quality, since=since)
        if is_among_the_best(self.config.capture, reached=reached, successes=successes):
            return None
        return CaptureOutcome.BELOW_PERCENTILE

    async def _ended(self, lesson: Lesson, token: str, captured: Captured) -> Outcome:
        if captured.outcome in _PASSING and lesson.attempt < (RETRY.attempts or 0):
            return self._postponed(lesson, token, because=captured.outcome)
        proposal, is_stored = captured.proposal, captured.memory_id is not None
        # Memory first, then the row: a crash between the two costs one more look, at an answer that is kept.
        try:
            self.ledger.lessons.finish(
                self.company,
                lesson.lesson_id,
                token,
                captured.outcome,
                memory_id=captured.memory_id,
                confidence=None if proposal is None else proposal.confidence,
                text=_text_of(proposal) if proposal and is_stored else None,
                is_known=captured.outcome is CaptureOutcome.REPEATED,
            )
        except MemoryNotFoundError:
            if captured.memory_id is not None:
                # Its agent was erased meanwhile: what was learned goes with it.
                await self.backend.delete_many(lesson.agent_id, [captured.memory_id])
            return Skipped(reason="this lesson is forgotten")
        facts = {"agent_id": lesson.agent_id, "lesson_id": lesson.lesson_id, "outcome": captured.outcome.value}
        _log.info(Event.PROCEDURAL_MEMORY_LESSON_DRAWN, extra={**facts, "skill_failures": captured.skill_failures})
        return Done(facts={captured.outcome.value: 1})

    def _postponed(self, lesson: Lesson, token: str, *, because: CaptureOutcome) -> Outcome:
        until, attempt = self.clock() + RETRY.delay(lesson.attempt), lesson.attempt
        reason = f"the language model: {because.value}; try {attempt}, the next at {until:%H:%M}"
        self.ledger.lessons.wait(self.company, lesson.lesson_id, token, until=until, reason=reason)
        facts = {"agent_id": lesson.agent_id, "lesson_id": lesson.lesson_id, "tries": attempt}
        _log.info(Event.PROCEDURAL_MEMORY_LESSON_PUT_OFF, extra=facts)
        return Deferred(reason=reason)
