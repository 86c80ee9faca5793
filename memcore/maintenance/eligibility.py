"""Which memories consolidation may touch at all, whatever the strategy."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.experience_models import COMPRESSED_TAG
from memcore.maintenance.over import NOTHING_OVER, Over
from memcore.models import MemoryCategory, MemoryLevel

#: Tag that every summary carries.
CONSOLIDATED_TAG = "consolidated"

#: Tags that keep a memory as it is. A summary of summaries would lose most of each (``consolidated``); distillations
#: are read whole by later steps; compressed experience is JSON, and would be torn; superseded entries are evidence;
#: core and pinned ones were chosen by someone.
PROTECTED_FROM_CONSOLIDATION = ("distillation", COMPRESSED_TAG, CONSOLIDATED_TAG, "superseded", "core", "pinned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """Decide what consolidation may take at a moment.

    Attributes:
        now: the moment.
        categories: memories of others stay as they are.
        min_age_days: younger memories are left alone.
        level: the agent's level. Ending a session removes a session-level agent's memories of it, so one that still
            names a session belongs to an open one and is left alone; at other levels the least age stands for that.
        cutoffs: what retention would remove is not summarised first.
        held: ids that an undo has just brought back.
        over: what goes with its session or project is not summarised first.
    """

    now: datetime
    categories: tuple[MemoryCategory, ...]
    min_age_days: int
    level: MemoryLevel
    cutoffs: Mapping[MemoryCategory, datetime]
    held: frozenset[str]
    over: Over = NOTHING_OVER

    def where(self, agent_id: str, category: MemoryCategory) -> Where | None:
        """Return the filter for one category, or None when nothing of it can be taken."""
        newest = self.now - timedelta(days=self.min_age_days)
        oldest = self.cutoffs.get(category)
        if category not in self.categories or (oldest is not None and oldest >= newest):
            return None
        return Where(
            agent_id=agent_id,
            categories=frozenset({category}),
            without_tags=PROTECTED_FROM_CONSOLIDATION,
            created_before=newest,
            created_since=oldest,
            without_ids=self.held,
            # A lesson would lose its form, and what is known about it; pruning keeps them few.
            lessons=False if category is MemoryCategory.PROCEDURAL else None,
            outside="session_id" if self.level is MemoryLevel.SESSION else None,
        )

    def allows(self, record: MemoryRecord) -> bool:
        """Return whether a match may be taken, by what the store cannot filter."""
        expires_at = record.entry.expires_at
        if expires_at is not None and expires_at <= self.now:
            return False
        if self.over.takes(record):
            return False
        return self.level is not MemoryLevel.SESSION or record.lineage.session_id is None
