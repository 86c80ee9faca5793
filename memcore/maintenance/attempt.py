"""One attempt at a run: what the steps work with."""

from dataclasses import dataclass
from datetime import datetime

from memcore.backends.protocol import BatchBackend
from memcore.config.consolidation import ConsolidationConfig
from memcore.ledger.run import Run
from memcore.maintenance.bookkeeper import Bookkeeper
from memcore.maintenance.eligibility import Eligibility
from memcore.maintenance.retention import cutoffs
from memcore.maintenance.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An agent's memories and terms at one moment; all that planning needs.

    Attributes:
        now: one moment for the whole attempt: nothing becomes too old between two steps.
        held: ids that an undo has just brought back; no step touches them.
    """

    company: str
    agent_id: str
    backend: BatchBackend
    policy: ConsolidationConfig
    terms: Terms
    now: datetime
    held: frozenset[str]

    @property
    def eligibility(self) -> Eligibility:
        """What consolidation may take."""
        return Eligibility(
            now=self.now,
            min_age_days=self.policy.min_age_days,
            level=self.terms.level,
            cutoffs=cutoffs(self.terms.keep_days, self.now),
            held=self.held,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a run: what it sees, and who carries out what it decides."""

    run: Run
    view: View
    books: Bookkeeper
