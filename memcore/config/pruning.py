"""Which lessons are forgotten."""

from typing import Literal

from pydantic import Field

from memcore.frozen import Frozen


class PruningConfig(Frozen):
    """Keep an agent's procedural memories few and fresh.

    Attributes:
        type: by age, by relevance and recency, or first one and then the other.
        max_age_days: age from which `ttl` forgets, 1 or more.
        max_entries: so many `pareto` keeps, 1 or more.
    """

    type: Literal["ttl", "pareto", "hybrid"] = "ttl"
    max_age_days: int = Field(default=90, ge=1)
    max_entries: int = Field(default=100, ge=1)
