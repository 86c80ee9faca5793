"""How memories behave, in the words of the guide's ``options`` section."""

from typing import Annotated

from pydantic import Field

from memcore.config.added import Added
from memcore.frozen import Frozen
from memcore.models import ConsolidationInterval


class MemoryOptionsConfig(Frozen):
    """State the limits of an agent's memory; ``consolidation`` may say the same and then wins.

    Attributes:
        retention_days: None keeps memories for ever; same as ``consolidation.retention.default_retention_days``.
        max_memories_per_agent: same as ``consolidation.max_memories_per_agent``.
        consolidation_interval: same as ``consolidation.interval``.
        shared_knowledge_base: whether agents may publish, and search what others publish; facts and policies of the
            organisation are shown either way.
        session_timeout_hours: a session without a new memory for so long is over; None waits for its end for ever.
        project_timeout_hours: the same of a project.
        task_timeout_hours: working memories older than this go, unless a retention rule names them; None keeps them.
    """

    retention_days: int | None = Field(default=None, ge=1)
    max_memories_per_agent: int = Field(default=10_000, ge=1)
    consolidation_interval: ConsolidationInterval = ConsolidationInterval.DAILY
    shared_knowledge_base: bool = True
    session_timeout_hours: Annotated[int | None, Added("an engine that dies never ends its session")] = Field(
        default=24, ge=1
    )
    project_timeout_hours: Annotated[int | None, Added("projects rest for months; who wants a limit sets one")] = Field(
        default=None, ge=1
    )
    task_timeout_hours: Annotated[int | None, Added("an engine that dies never ends its task")] = Field(
        default=24, ge=1
    )
