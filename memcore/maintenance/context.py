"""The context of one attempt at a run: its run, the agent's snapshot and the journaled store."""

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
    """An agent's memories and effective policy at one moment; all that planning needs.

    Attributes:
        now: one moment for the whole attempt: nothing becomes too old between two steps.
        protected_by_undo: ids that an undo has just brought back; no step touches them.
        ended: returns the times at which sessions or projects of these ids were ended.
        uses: returns how often the agent was shown memories of these ids.
        applications: returns how often lessons of these ids were applied.
        pruning: which lessons are forgotten; None forgets none.
        ended_scopes: sessions and projects that have ended; a plan counts their memories as gone.
        pruned: lessons that are forgotten; a plan counts them as gone.
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
        """The time before which a memory is too old, for each category that has a rule or a time-out."""
        found = retention_cutoffs(self.terms.keep_days, self.now)
        if self.terms.working_timeout is not None:
            silent = self.now - self.terms.working_timeout
            found[MemoryCategory.WORKING] = max(found.get(MemoryCategory.WORKING, silent), silent)
        return found

    @property
    def survives_retention(self) -> Callable[[MemoryRecord], bool]:
        """Returns whether retention and pruning leave a memory that is under no hold."""
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
        """The memories that consolidation may take."""
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
        """The memories that enforcement archives."""
        return Archiving(config=self.policy.archival, now=self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One attempt at a run."""

    run: Run
    snapshot: AgentSnapshot
    journaled_store: JournaledStore
