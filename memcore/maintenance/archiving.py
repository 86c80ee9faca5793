"""Which of the memories that leave the store go to the archive, and how their text was preserved."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.config.archival import ArchivalConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiving:
    """Decide for one attempt what is archived.

    Only consolidation and enforcement ask. What retention, an expiry or an end removes was to be deleted, and an
    archive that kept it would break that word.

    Attributes:
        config: whether anything is, and from which age.
        now: the attempt's moment.
    """

    config: ArchivalConfig
    now: datetime

    def mode_of(self, record: MemoryRecord, *, chosen: ArchivalMode | None = None) -> ArchivalMode | None:
        """Return the mode under which a removed memory is archived, or None when it is not.

        Args:
            record: what goes.
            chosen: how the op wrote the summary that replaces it; without one the memory counts as preserved word
                by word, for its text in the archive is.
        """
        if not self.takes(record.entry.created_at):
            return None
        return chosen or ArchivalMode.EXTRACTIVE

    def takes(self, created_at: datetime) -> bool:
        """Return whether a memory of that time is archived when it goes."""
        return self.config.enabled and created_at <= self.now - timedelta(days=self.config.age_threshold_days)
