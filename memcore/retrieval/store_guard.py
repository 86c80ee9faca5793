"""Advice where memories are stored: without the non-inferable tag, no prompt will show them."""

import logging
from collections.abc import Collection

from memcore.retrieval.events import RetrievalEvent
from memcore.retrieval.memory_filter import NON_INFERABLE_TAG

#: Agents that are remembered as warned, a megabyte of ids.
_MOST_AGENTS = 10_000

_log = logging.getLogger(__name__)


class StoreGuard:
    """Warn once for each agent that stores without the tag; used where ``non_inferable_only`` is on. Blocks nothing."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def look(self, agent_id: str, tags: Collection[str]) -> None:
        """Log ``memory.filter.store_missing_tag`` when the tag is missing and the agent has not been named yet."""
        if NON_INFERABLE_TAG in tags or agent_id in self._warned:
            return
        if len(self._warned) < _MOST_AGENTS:
            self._warned.add(agent_id)
        _log.warning(RetrievalEvent.STORE_MISSING_TAG, extra={"agent_id": agent_id, "tag": NON_INFERABLE_TAG})
