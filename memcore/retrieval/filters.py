"""Filters that decide which memories may enter a prompt, and a warning for stores without the tag."""

import logging
from collections.abc import Collection
from typing import Final, Protocol, runtime_checkable

from memcore.errors import MemoryInputError
from memcore.models.memory import NON_INFERABLE_TAG
from memcore.retrieval.protocol import ScoredMemory
from memcore.telemetry.events import Event

#: What an agent is told about that tag.
NON_INFERABLE_GUIDANCE = (
    f"Tag a memory {NON_INFERABLE_TAG} when you store what cannot be read from the code or the environment: why a "
    "design is as it is, what the team decided, why something was not done, knowledge from other repositories, how "
    "people work together. What can be looked up needs no memory."
)

_log = logging.getLogger(__name__)


@runtime_checkable
class MemoryFilterStrategy(Protocol):
    """Decides which memories may be injected; one that raises lets nothing through (the pipeline fails closed)."""

    def filter_for_injection(self, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return those that may enter the prompt, in their order."""
        ...


class TagBasedMemoryFilter:
    """Passes the memories that carry a tag; raises MemoryInputError when it is blank."""

    strategy_name: Final = "tag_based"

    def __init__(self, required_tag: str = NON_INFERABLE_TAG) -> None:
        if not required_tag.strip():
            raise MemoryInputError("required_tag", "must not be blank")
        self._tag = required_tag.strip()

    def filter_for_injection(self, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        kept = tuple(each for each in memories if self._tag in each.entry.metadata.tags)
        _log.debug(Event.MEMORY_FILTER_APPLIED, extra={"given": len(memories), "kept": len(kept)})
        return kept


class PassthroughMemoryFilter:
    """Passes all memories."""

    strategy_name: Final = "passthrough"

    def filter_for_injection(self, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        return memories


#: Agents that are remembered as warned, a megabyte of ids.
_MOST_AGENTS = 10_000


class StoreGuard:
    """Warns once for each agent that stores without the tag, where ``non_inferable_only`` is on. Blocks nothing."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def check_now(self, agent_id: str, tags: Collection[str]) -> None:
        """Log ``memory.filter.store_missing_tag`` when the tag is missing and the agent has not been named yet."""
        if NON_INFERABLE_TAG in tags or agent_id in self._warned:
            return
        if len(self._warned) < _MOST_AGENTS:
            self._warned.add(agent_id)
        _log.warning(Event.MEMORY_FILTER_STORE_MISSING_TAG, extra={"agent_id": agent_id, "tag": NON_INFERABLE_TAG})
