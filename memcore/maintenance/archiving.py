"""Which of the memories that leave the store go to the archive."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.config.archival import ArchivalConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiving:
    """Decide for one attempt what enforcement archives; what a summary replaces is archived always.

    What retention, an expiry or an end removes was to be deleted, and an archive that kept it would break that word.

    Attributes:
        config: whether anything is, and from which age.
        now: the attempt's moment.
    """

    config: ArchivalConfig
    now: datetime

    def mode_of(self, record: MemoryRecord) -> ArchivalMode | None:
        """Return the mode under which a memory over the limit is archived, or None when it is not."""
        return ArchivalMode.EXTRACTIVE if self.takes(record.entry.created_at) else None

    def takes(self, created_at: datetime) -> bool:
        """Return whether a memory of that time is archived when the limit takes it."""
        return self.config.enabled and created_at <= self.now - timedelta(days=self.config.age_threshold_days)
