"""What an agent that edits its own memory may do."""

from typing import Annotated

from pydantic import AfterValidator, Field

from memcore.frozen import Frozen, NotBlankStr
from memcore.models import MemoryCategory


def _archivable(categories: frozenset[MemoryCategory]) -> frozenset[MemoryCategory]:
    if not categories:
        raise ValueError("must name at least one category")
    if MemoryCategory.WORKING in categories:
        raise ValueError("must not name working, whose memories end with their task")
    return categories


class SelfEditingMemoryConfig(Frozen):
    """Bound the six tools of the self-editing strategy.

    Attributes:
        core_memory_token_budget: the tokens of core memory in every prompt.
        core_memory_tag: the tag that makes a semantic memory a core memory.
        allow_core_writes: whether the agent may write core memory.
        core_max_entries: the most core memories.
        archival_search_limit: the most results of an archival search.
        archival_categories: the categories that the agent may write and search; never working.
        write_auto_tag: whether its writes carry the tag ``self_edited``.
    """

    core_memory_token_budget: int = Field(default=1024, ge=256, le=8192)
    core_memory_tag: NotBlankStr = "core"
    allow_core_writes: bool = True
    core_max_entries: int = Field(default=20, ge=1, le=200)
    archival_search_limit: int = Field(default=10, ge=1, le=50)
    archival_categories: Annotated[frozenset[MemoryCategory], AfterValidator(_archivable)] = frozenset(
        {MemoryCategory.EPISODIC, MemoryCategory.SEMANTIC, MemoryCategory.PROCEDURAL, MemoryCategory.SOCIAL}
    )
    write_auto_tag: bool = True
