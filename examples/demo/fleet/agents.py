"""Who works in the fleet: the agents with their policies, as agents.yaml lists them."""

from datetime import timedelta

from pydantic import Field

from examples.demo.fleet.pages import page
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import ConsolidationInterval, MemoryCategory


class FleetAgent(Frozen):
    """One agent of the fleet.

    Attributes:
        about: who it is, in a sentence.
        max_memories: its limit, where it differs from the policy's.
        retention_days: days that a category is kept, where they differ from the policy's.
    """

    id: NotBlankStr
    role: NotBlankStr
    department: NotBlankStr
    interval: ConsolidationInterval
    about: NotBlankStr
    max_memories: int | None = Field(default=None, ge=1)
    retention_days: dict[MemoryCategory, int] = Field(default_factory=dict)

    def retention(self, category: MemoryCategory) -> timedelta | None:
        """Return how long the agent keeps a category, or None when the policy decides."""
        days = self.retention_days.get(category)
        return None if days is None else timedelta(days=days)


def agents() -> tuple[FleetAgent, ...]:
    """Return the agents of the fleet in the order of agents.yaml."""
    return tuple(FleetAgent.model_validate(row) for row in page("agents.yaml"))
