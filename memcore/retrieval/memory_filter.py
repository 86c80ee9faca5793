"""Which of the memories found may enter a prompt."""

import logging
from typing import Protocol, runtime_checkable

from memcore.errors import MemoryInputError
from memcore.retrieval.events import RetrievalEvent
from memcore.retrieval.scored_memory import ScoredMemory

#: The tag of memories whose content an agent cannot find out by looking at its code or environment.
NON_INFERABLE_TAG = "non-inferable"

#: What an agent is told about that tag.
NON_INFERABLE_GUIDANCE = (
    f"Tag a memory {NON_INFERABLE_TAG} when you store what cannot be read from the code or the environment: why a "
    "design is as it is, what the team decided, why something was not done, knowledge from other repositories, how "
    "people work together. What can be looked up needs no memory."
)

_log = logging.getLogger(__name__)


@runtime_checkable
class MemoryFilterStrategy(Protocol):
    """Decide which memories may be injected; one that raises lets nothing through (the pipeline fails closed)."""

    def filter_for_injection(self, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return those that may enter the prompt, in their order."""
        ...


class TagBasedMemoryFilter:
    """Let through the memories that carry a tag.

    Args:
        required_tag: the tag.

    Raises:
        MemoryInputError: the tag is blank.
    """

    def __init__(self, required_tag: str = NON_INFERABLE_TAG) -> None:
        if not required_tag.strip():
            raise MemoryInputError("required_tag", "must not be blank")
        self._tag = required_tag.strip()

    @property
    def strategy_name(self) -> str:
        """``tag_based``."""
        return "tag_based"

    def filter_for_injection(self, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return those that carry the tag, in their order."""
        kept = tuple(each for each in memories if self._tag in each.entry.metadata.tags)
        _log.debug(RetrievalEvent.FILTER_APPLIED, extra={"given": len(memories), "kept": len(kept)})
        return kept


class PassthroughMemoryFilter:
    """Let everything through."""

    @property
    def strategy_name(self) -> str:
        """``passthrough``."""
        return "passthrough"

    def filter_for_injection(self, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return them all."""
        return memories
