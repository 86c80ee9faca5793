"""How much of a memory's freshness is left."""

import math
from datetime import datetime, timedelta

_HOUR = timedelta(hours=1)


def compute_recency_score(created_at: datetime, now: datetime, decay_rate: float) -> float:
    """Return ``exp(-decay_rate * age in hours)``: 1.0 for a memory made now or later, towards 0.0 with age.

    Args:
        created_at: when the memory was made; both times are aware of their zones.
        now: the time at which it is looked at.
        decay_rate: per hour, 0 or more; 0.01 halves the score in about three days.
    """
    age = max(0.0, (now - created_at) / _HOUR)
    return math.exp(-decay_rate * age)
