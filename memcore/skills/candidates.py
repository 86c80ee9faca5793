"""Skill candidates, the cycle's stages and log events, and the protocols of what the evolver reads and files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from memcore.approvals.effects import PublicationLog
from memcore.embedding.bm25 import Tokenizer
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.patterns import Pattern, PatternTally, Window
from memcore.ledger.learning.skills import Skill
from memcore.ledger.learning.trajectories import Trajectory
from memcore.models.approval import Approval, ApprovalState, Proposal
from memcore.procedural.records import LessonText


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCandidate:
    """A pattern, and the lesson that would become a skill of all agents.

    Attributes:
        approval_id: the id of its proposal.
        lesson: one agent's, with that agent's confidence.
    """

    pattern_id: str
    approval_id: str
    pattern: Pattern
    lesson: LessonText

    @property
    def condition(self) -> str:
        """When it applies."""
        return self.lesson.condition

    @property
    def action(self) -> str:
        """What to do then."""
        return self.lesson.action

    @property
    def confidence(self) -> float:
        """The pattern's confidence, which many agents support, not the lesson's own."""
        return self.pattern.confidence

    @property
    def rank(self) -> tuple[float, int, str]:
        """The place among all: the surest first, then the most frequent, then by id."""
        return -self.confidence, -self.pattern.occurrences, self.pattern_id


_TOKENIZER = Tokenizer()


def terms(*texts: str | None) -> frozenset[str]:
    """Return every term of the texts, each once."""
    return frozenset(_TOKENIZER.terms(" ".join(text for text in texts if text)))


class CycleStage(StrEnum):
    """A cycle's stages, in order."""

    #: Patterns are found, and the lesson that stands for each.
    SEARCHING = "searching"
    #: Their conditions are replayed on past executions.
    REPLAYING = "replaying"
    #: What is left is compared with the existing skills, and proposed.
    FILING = "filing"


class SkillEvent(StrEnum):
    """A log event of the skill evolver."""

    SKILL_EVOLVER_CYCLE_START = "skill_evolver.cycle.start"
    #: The report's counts stand beside it.
    SKILL_EVOLVER_CYCLE_COMPLETE = "skill_evolver.cycle.complete"
    #: The error's class stands beside it; what was filed before stays filed.
    SKILL_EVOLVER_CYCLE_FAILED = "skill_evolver.cycle.failed"
    #: A proposal waits for a person.
    SKILL_EVOLVER_PROPOSAL_EMITTED = "skill_evolver.proposal.emitted"
    #: A pattern contradicts what stands or waits; a person must look.
    SKILL_EVOLVER_CONFLICT_DETECTED = "skill_evolver.conflict.detected"
    #: The policy has it switched off.
    SKILL_EVOLVER_DISABLED = "skill_evolver.disabled"
    #: A proposal takes the place of a skill, once it is approved.
    ORG_SKILL_SUPERSEDED = "org_skill.superseded"


class PatternSource(Protocol):
    """Patterns of a window; see memcore.ledger.learning.patterns."""

    def tally(self, company: str, window: Window, /) -> PatternTally:
        """Return how many there are."""
        ...

    def surest(self, company: str, window: Window, /) -> Iterator[Pattern]:
        """Yield the sure ones, the surest first."""
        ...


class TrajectorySource(Protocol):
    """Executions of a window; see memcore.ledger.learning.trajectories."""

    def stream(self, company: str, /, *, since: datetime, until: datetime) -> Iterator[Trajectory]:
        """Yield them, newest first."""
        ...

    def count(self, company: str, /, *, since: datetime, until: datetime) -> int:
        """Return how many there are."""
        ...


class LessonSource(Protocol):
    """Lessons of a pattern, one an agent; see memcore.ledger.learning.lessons."""

    def of_failures(
        self, company: str, category: str, /, *, since: datetime, until: datetime, limit: int
    ) -> Sequence[Lesson]:
        """Return those on failures of a category."""
        ...

    def of_successes(
        self, company: str, tools_key: str, /, *, since: datetime, until: datetime, limit: int
    ) -> Sequence[Lesson]:
        """Return those on successes with these tools."""
        ...


class SkillSource(Protocol):
    """Skills that are published; see memcore.ledger.learning.skills."""

    def stream(self, company: str, /) -> Iterator[Skill]:
        """Yield them."""
        ...

    def count(self, company: str, /) -> int:
        """Return how many there are."""
        ...


class ApprovalSource(Protocol):
    """Earlier proposals and their outcomes; see memcore.ledger.organization.approvals."""

    def get(self, company: str, approval_id: str, /) -> Approval | None:
        """Return one, or None."""
        ...

    def page(
        self, company: str, /, *, state: ApprovalState | None = None, before: Approval | None = None
    ) -> Sequence[Approval]:
        """Return a page, newest first."""
        ...


class Sources(Protocol):
    """All that the evolver reads; a Ledger provides it."""

    @property
    def patterns(self) -> PatternSource:
        """What executions have in common."""
        ...

    @property
    def trajectories(self) -> TrajectorySource:
        """The executions."""
        ...

    @property
    def lessons(self) -> LessonSource:
        """What agents learned from them."""
        ...

    @property
    def skills(self) -> SkillSource:
        """What all agents know."""
        ...

    @property
    def approvals(self) -> ApprovalSource:
        """What people decided."""
        ...

    @property
    def shared_log(self) -> PublicationLog:
        """The log of published skills."""
        ...


class Proposals(Protocol):
    """Files proposals; see memcore.approvals.service."""

    async def propose(self, approval_id: str, proposal: Proposal, /) -> Approval:
        """File one, and return it, or what was filed under this id before."""
        ...
