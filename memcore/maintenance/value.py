"""What a memory is worth when an agent has too many: a rule that anyone can read, and replace."""

from collections.abc import Callable
from datetime import datetime, timedelta

from memcore.models import MemoryEntry

#: Worth of a memory at a time; the least worth goes first.
ValueFunction = Callable[[MemoryEntry, datetime], float]

#: Age at which a memory is worth half: a month, the time over which this project's agents speak of the same work.
HALF_LIFE = timedelta(days=30)


def recency_and_confidence(entry: MemoryEntry, now: datetime) -> float:
    """Return the confidence, halved for every 30 days of age; between 0 and 1.

    A memory without confidence is worth nothing however new it is; among equals the caller removes the oldest.
    """
    age = max(now - entry.created_at, timedelta(0))
    return float(entry.metadata.confidence * 0.5 ** (age / HALF_LIFE))
