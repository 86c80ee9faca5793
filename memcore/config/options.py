"""How memories behave, in the words of the guide's ``options`` section."""

from typing import Annotated

from pydantic import Field

from memcore.config.added import Added
from memcore.frozen import Frozen
from memcore.models import ConsolidationInterval


class MemoryOptionsConfig(Frozen):
    """Set general limits; ``consolidation`` wins where both sections set the same value.

    Attributes:
        retention_days: days until a memory expires; None keeps it for ever. The same as
            ``consolidation.retention.default_retention_days``.
        max_memories_per_agent: the same as ``consolidation.max_memories_per_agent``.
        consolidation_interval: the same as ``consolidation.interval``.
        shared_knowledge_base: whether agents may publish memories and search what other agents published. Facts and
            policies of the organisation are shown in any case.
        session_timeout_hours: hours without a new memory after which a session counts as ended; None waits for its end
            for ever.
        project_timeout_hours: hours without a new memory after which a project counts as ended; None waits for its end
            for ever.
        task_timeout_hours: hours after which a working memory is removed, unless a retention rule names working
            memories; None keeps it.
    """

    retention_days: int | None = Field(default=None, ge=1)
    max_memories_per_agent: int = Field(default=10_000, ge=1)
    consolidation_interval: ConsolidationInterval = ConsolidationInterval.DAILY
    shared_knowledge_base: bool = True
    session_timeout_hours: Annotated[int | None, Added("an engine that dies never ends its session")] = Field(
        default=24, ge=1
    )
    project_timeout_hours: Annotated[int | None, Added("projects may rest for months; the limit is optional")] = Field(
        default=None, ge=1
    )
    task_timeout_hours: Annotated[int | None, Added("an engine that dies never ends its task")] = Field(
        default=24, ge=1
    )
