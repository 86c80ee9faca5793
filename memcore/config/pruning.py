"""Which lessons are forgotten."""

from typing import Literal

from pydantic import Field

from memcore.frozen import Frozen


class PruningConfig(Frozen):
    """Bound the number and the age of an agent's procedural memories.

    Attributes:
        type: ``ttl`` forgets by age, ``pareto`` by relevance and recency, ``hybrid`` by both in this order.
        max_age_days: the age from which ``ttl`` forgets.
        max_entries: the number of memories that ``pareto`` keeps.
    """

    type: Literal["ttl", "pareto", "hybrid"] = "ttl"
    max_age_days: int = Field(default=90, ge=1)
    max_entries: int = Field(default=100, ge=1)
