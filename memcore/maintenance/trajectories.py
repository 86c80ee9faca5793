"""What the agent was doing when its memories were made: context for a model that merges them."""

import logging

from memcore.backends.protocol import MemoryBackend
from memcore.config.llm_consolidation import LLMConsolidationConfig
from memcore.distillation.request import DISTILLATION
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.maintenance.events import MaintenanceEvent
from memcore.models import MemoryQuery

_log = logging.getLogger(__name__)


class RecentTrajectories:
    """Read an agent's newest distillations.

    Args:
        backend: where they are.
        config: how many, and how much of each.
    """

    def __init__(self, backend: MemoryBackend, config: LLMConsolidationConfig) -> None:
        self._backend = backend
        self._config = config

    async def __call__(self, agent_id: str) -> tuple[str, ...]:
        """Return the newest first, each cut; none, with a warning, when they cannot be read."""
        query = MemoryQuery(tags=(DISTILLATION,), limit=self._config.max_trajectory_context_entries)
        try:
            found = await self._backend.retrieve(agent_id, query)
        except MemoryError as error:
            _log.warning(
                MaintenanceEvent.CONTEXT_MISSING, extra={"agent_id": agent_id, "error_type": type(error).__name__}
            )
            return ()
        return tuple(entry.content[: self._config.max_trajectory_chars_per_entry] for entry in found)
