"""One attempt at a run: what the steps work with."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from memcore.backends.protocol import BatchBackend
from memcore.config.maintenance import ConsolidationConfig, PruningConfig
from memcore.jobs.payloads import Use
from memcore.ledger.learning.skills import Applications
from memcore.ledger.runs import EndKind, Run
from memcore.maintenance.removals import JournaledStore
from memcore.maintenance.rules import (
    NOTHING_ENDED,
    Archiving,
    EffectivePolicy,
    Eligibility,
    EndedScopes,
    is_old,
    retention_cutoffs,
)
from memcore.models.memory import MemoryCategory
from memcore.records import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSnapshot:
    """An agent's memories and terms at one moment; all that planning needs.

    Attributes:
        now: one moment for the whole attempt: nothing becomes too old between two steps.
        protected_by_undo: ids that an undo has just brought back; no step touches them.
        ended: tells when those of the given sessions or projects were ended that were.
        uses: tells how often the agent was shown those of the given memories that it was.
        applications: tells how often those of the given lessons were applied that were.
        pruning: which lessons are forgotten; None forgets none.
        ended_scopes: what has been found over; a plan counts it as gone.
        pruned: the lessons that were found to be forgotten; a plan counts them as gone.
    """

    company: str
    agent_id: str
    backend: BatchBackend
    policy: ConsolidationConfig
    terms: EffectivePolicy
    now: datetime
    protected_by_undo: frozenset[str]
    ended: Callable[[EndKind, Collection[str]], Mapping[str, datetime]]
    uses: Callable[[Collection[str]], Mapping[str, Use]]
    applications: Callable[[Collection[str]], Mapping[str, Applications]]
    pruning: PruningConfig | None = None
    ended_scopes: EndedScopes = NOTHING_ENDED
    pruned: frozenset[str] = frozenset()

    @property
    def retention_cutoffs(self) -> dict[MemoryCategory, datetime]:
        """For each category that has a rule or a time-out, the time before which a memory is too old."""
        found = retention_cutoffs(self.terms.keep_days, self.now)
        if self.terms.working_timeout is not None:
            silent = self.now - self.terms.working_timeout
            found[MemoryCategory.WORKING] = max(found.get(MemoryCategory.WORKING, silent), silent)
        return found

    @property
    def survives_retention(self) -> Callable[[MemoryRecord], bool]:
        """Tells of a memory that is not held whether the retention step leaves it, pruning included."""
        too_old = self.retention_cutoffs
        return lambda record: (
            not (
                record.entry.id in self.pruned
                or is_old(record.entry, too_old, self.now)
                or self.ended_scopes.takes(record)
            )
        )

    @property
    def eligibility(self) -> Eligibility:
        """What consolidation may take."""
        return Eligibility(
            now=self.now,
            categories=self.policy.categories,
            min_age_days=self.policy.least_age_days,
            level=self.terms.level,
            retention_cutoffs=self.retention_cutoffs,
            protected_by_undo=self.protected_by_undo,
            ended_scopes=self.ended_scopes,
        )

    @property
    def archiving(self) -> Archiving:
        """What goes to the archive when the limit takes it."""
        return Archiving(config=self.policy.archival, now=self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One attempt at a run: what it sees, and who carries out what it decides."""

    run: Run
    snapshot: AgentSnapshot
    journaled_store: JournaledStore
