"""What the evolver reads: none of these can write, so neither can it. Its one way out is a proposal."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from memcore.approval_models import Approval, ApprovalState, Proposal
from memcore.approvals.shared_publication import PublicationLog
from memcore.ledger.lesson import Lesson
from memcore.ledger.pattern import Pattern, PatternTally
from memcore.ledger.patterns import Window
from memcore.ledger.skill import Skill
from memcore.ledger.trajectory import Trajectory


class PatternSource(Protocol):
    """Patterns of a window; see memcore.ledger.patterns."""

    def tally(self, company: str, window: Window, /) -> PatternTally:
        """Return how many there are."""
        ...

    def surest(self, company: str, window: Window, /) -> Iterator[Pattern]:
        """Yield the sure ones, the surest first."""
        ...


class TrajectorySource(Protocol):
    """Executions of a window; see memcore.ledger.trajectories."""

    def stream(self, company: str, /, *, since: datetime, until: datetime) -> Iterator[Trajectory]:
        """Yield them, newest first."""
        ...

    def count(self, company: str, /, *, since: datetime, until: datetime) -> int:
        """Return how many there are."""
        ...


class LessonSource(Protocol):
    """Lessons of a pattern, one an agent; see memcore.ledger.lessons."""

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
    """Skills that stand; see memcore.ledger.skills."""

    def stream(self, company: str, /) -> Iterator[Skill]:
        """Yield them."""
        ...

    def count(self, company: str, /) -> int:
        """Return how many there are."""
        ...


class ApprovalSource(Protocol):
    """What was proposed before, and what became of it; see memcore.ledger.approvals."""

    def get(self, company: str, approval_id: str, /) -> Approval | None:
        """Return one, or None."""
        ...

    def page(
        self, company: str, /, *, state: ApprovalState | None = None, before: Approval | None = None
    ) -> Sequence[Approval]:
        """Return a page, newest first."""
        ...


class Sources(Protocol):
    """All that the evolver reads; a Ledger is one."""

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
        """How skills are published."""
        ...


class Proposals(Protocol):
    """Where proposals are filed; see memcore.approvals.service."""

    async def propose(self, approval_id: str, proposal: Proposal, /) -> Approval:
        """File one, and return it, or what was filed under this id before."""
        ...
