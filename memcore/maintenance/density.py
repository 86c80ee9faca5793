"""Whether a memory reads like talk or like data: talk may be summarised, data must be kept word for word."""

import logging
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from memcore.maintenance.density_signals import code, identifiers, line_structure, numeric, structured
from memcore.maintenance.events import MaintenanceEvent
from memcore.models import MemoryEntry

#: The score from which on a text is dense (the reference's default).
DEFAULT_DENSE_THRESHOLD = 0.5

#: What each signal weighs in the score (the reference's figures); together they are 1.
_WEIGHTS = ((0.30, code), (0.25, structured), (0.20, identifiers), (0.10, numeric), (0.15, line_structure))

_log = logging.getLogger(__name__)


class ContentDensity(StrEnum):
    """What a text is: talk (chat, stories, minutes), or data (code, logs, tables, ids)."""

    SPARSE = "sparse"
    DENSE = "dense"


class DensityClassifier:
    """Tell dense texts from sparse ones by five weighted signals, without a model; the same text, the same answer.

    Args:
        dense_threshold: the score from which on a text is dense; 0.0 takes everything for dense, 1.0 everything for
            sparse.

    Raises:
        ValueError: the threshold is not a number from 0.0 to 1.0.
    """

    def __init__(self, dense_threshold: float = DEFAULT_DENSE_THRESHOLD) -> None:
        if not 0.0 <= dense_threshold <= 1.0:
            raise ValueError(f"dense_threshold must be 0.0 to 1.0, not {dense_threshold}")
        self._threshold = dense_threshold

    def score(self, content: str) -> float:
        """Return how dense a text is: 0.0 for plain prose, 1.0 when every signal is full."""
        return min(1.0, sum(weight * signal(content) for weight, signal in _WEIGHTS))

    def classify(self, content: str) -> ContentDensity:
        """Return what a text is: dense when its score reaches the threshold."""
        # A full score reaches 1.0 too, which yet means that nothing is dense.
        is_dense = self._threshold < 1.0 and self.score(content) >= self._threshold
        return ContentDensity.DENSE if is_dense else ContentDensity.SPARSE

    def classify_batch(self, entries: Iterable[MemoryEntry]) -> tuple[tuple[MemoryEntry, ContentDensity], ...]:
        """Return each memory with what it is, in the order in which they came; how many are what is logged."""
        pairs = tuple((entry, self.classify(entry.content)) for entry in entries)
        counts = Counter(density for _, density in pairs)
        _log.info(
            MaintenanceEvent.DENSITY_CLASSIFIED,
            extra={"dense": counts[ContentDensity.DENSE], "sparse": counts[ContentDensity.SPARSE]},
        )
        return pairs
