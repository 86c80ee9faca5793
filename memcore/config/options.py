"""How memories behave, in the words of the guide's ``options`` section."""

from pydantic import Field

from memcore.frozen import Frozen
from memcore.models import ConsolidationInterval


class MemoryOptionsConfig(Frozen):
    """State the limits of an agent's memory; ``consolidation`` may say the same and then wins.

    Attributes:
        retention_days: None keeps memories for ever; same as ``consolidation.retention.default_retention_days``.
        max_memories_per_agent: same as ``consolidation.max_memories_per_agent``.
        consolidation_interval: same as ``consolidation.interval``.
        shared_knowledge_base: whether agents may publish to, and search, the knowledge of all.
    """

    retention_days: int | None = Field(default=None, ge=1)
    max_memories_per_agent: int = Field(default=10_000, ge=1)
    consolidation_interval: ConsolidationInterval = ConsolidationInterval.DAILY
    shared_knowledge_base: bool = True
