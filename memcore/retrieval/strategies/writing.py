"""What tools write: new memories at once, changes and removals through the journal; limits that hold for agents."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Protocol

from pydantic import Field

from memcore.backends.base import fresh_record
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.errors import MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.models.base import Frozen
from memcore.models.memory import (
    COMPRESSED_TAG,
    CONDENSED_TAG,
    DETAILED_TAG,
    FALLBACK_TAG,
    KEYED_TAG,
    NON_INFERABLE_TAG,
    PROTECTED_FROM_CONSOLIDATION,
    SELF_EDITED_TAG,
    SYNTHESIZED_TAG,
    Content,
    MemoryCategory,
    MemoryEntry,
    MemoryLevel,
    MemoryMetadata,
    MemoryStoreRequest,
    NewLabels,
)
from memcore.retrieval.strategies.tools import MemoryId, Tool, ToolRefusedError, known_categories, tool

#: The source of what an agent writes with a tool.
TOOL_SOURCE = "agent_tool"

#: Most tags that an agent gives one memory.
MAX_AGENT_TAGS = 16

#: Tags that code or people act on, whatever the policy: an agent that set them would escape its limits.
_RESERVED = frozenset(
    {
        *(*PROTECTED_FROM_CONSOLIDATION, COMPRESSED_TAG, CONDENSED_TAG, DETAILED_TAG, FALLBACK_TAG, SYNTHESIZED_TAG),
        *(KEYED_TAG, SELF_EDITED_TAG),
    }
)


class Forgotten(Protocol):
    """What became of a removal."""

    @property
    def forgotten(self) -> Sequence[str]:
        """The ids of what was removed."""
        ...


class MemoryChanges(Protocol):
    """The calls of ``memcore.memories.Memories`` that tools need: journaled, undoable, in effect at once."""

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return the memory, or the version that stands in its place now; None when there is none."""
        ...

    async def put(self, agent_id: str, request: MemoryStoreRequest) -> MemoryEntry:
        """Write one memory now, by the rules of a store job; it can be found when this returns."""
        ...

    async def update(self, agent_id: str, memory_id: str, *, content: str) -> MemoryEntry:
        """Write a new version of the memory. Raises MemoryNotFoundError, MemoryConflictError for an old version."""
        ...

    async def forget(self, agent_id: str, memory_ids: str, *, expected: str) -> Forgotten:
        """Remove the memory. Raises MemoryConflictError where another version than the expected one is there."""
        ...


class MemoryWriter:
    """Writes for an agent's tools, in the agent's own process: what was written is found when a call returns.

    The rules are those of a store job: the level of the agent may refuse a memory.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        changes: MemoryChanges,
        policy: Policy,
        company: str,
        clock: Clock = utc_now,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._memory = policy.memory
        self._company = company
        self._clock = clock

    @property
    def core_tag(self) -> str:
        """The tag of core memories."""
        return self._memory.retrieval.self_editing.core_memory_tag

    def request(
        self, category: MemoryCategory, content: str, *, tags: Sequence[str] = (), is_self_edited: bool = True
    ) -> MemoryStoreRequest:
        """Return the memory as it is stored, with the tags that the policy adds."""
        retrieval = self._memory.retrieval
        added = [SELF_EDITED_TAG] if is_self_edited and retrieval.self_editing.write_auto_tag else []
        if retrieval.non_inferable_only:
            # What an agent says of its own accord cannot be looked up; without the tag it would never be shown again.
            added.append(NON_INFERABLE_TAG)
        metadata = MemoryMetadata(source=TOOL_SOURCE, tags=tuple(dict.fromkeys((*tags, *added))))
        return MemoryStoreRequest(category=category, content=content, metadata=metadata)

    def id_of(self, agent_id: str, request: MemoryStoreRequest) -> str:
        """Return the id that the memory will have."""
        return fresh_record(agent_id, request, company=self._company, now=self._clock()).entry.id

    async def add(self, agent_id: str, request: MemoryStoreRequest) -> str:
        """Store the memory and return its id; the same memory again is stated again.

        Raises:
            ToolRefusedError, MemoryInputError: the agent's level refuses it; nothing was written.
            MemoryConnectionError, MemoryStoreError, MemoryEmbeddingError: it is not stored; try again.
        """
        own = await asyncio.to_thread(self._ledger.agents.levels, self._company, [agent_id])
        if own.get(agent_id, self._memory.level) is MemoryLevel.NONE:
            raise ToolRefusedError("nothing is kept for this agent: its level is none.")
        return (await self._changes.put(agent_id, request)).id

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry:
        """Return the memory. Raises MemoryNotFoundError when this agent has none with this id."""
        found = await self._changes.get(agent_id, memory_id)
        if found is None:
            raise MemoryNotFoundError("no memory of this agent has this id")
        return found

    async def update(self, agent_id: str, memory_id: str, *, content: str) -> MemoryEntry:
        """Write a new version of a memory, and return it.

        Raises ToolRefusedError where the policy forbids it, MemoryConflictError where it was changed since.
        """
        self._check_may_change(await self.get(agent_id, memory_id))
        return await self._changes.update(agent_id, memory_id, content=content)

    async def forget(self, agent_id: str, memory_id: str) -> None:
        """Remove a memory; a person can undo it. Raises as ``update``."""
        found = await self.get(agent_id, memory_id)
        self._check_may_change(found)
        removed = await self._changes.forget(agent_id, found.id, expected=memory_id)
        if not removed.forgotten:
            raise MemoryNotFoundError("no memory of this agent has this id")
        if self.is_core(found):
            await asyncio.to_thread(self._ledger.core_slots.free, self._company, agent_id, found.id)

    def is_core(self, entry: MemoryEntry) -> bool:
        """Return whether a memory is a core memory."""
        return entry.category is MemoryCategory.SEMANTIC and self.core_tag in entry.metadata.tags

    def checked_tags(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return an agent's tags. Raises ToolRefusedError for one that only code or people may set."""
        reserved = {each.casefold() for each in (*_RESERVED, self.core_tag)}
        for each in tags:
            # A colon is part of the tags that code reads, as "propagated:ada".
            if each.strip().casefold() in reserved or ":" in each:
                raise ToolRefusedError("tags: one of them is reserved; use other words, without a colon.")
        return tuple(tags)

    def _check_may_change(self, entry: MemoryEntry) -> None:
        if self.is_core(entry) and not self._memory.retrieval.self_editing.allow_core_writes:
            raise ToolRefusedError("core memory cannot be changed: an operator has locked it.")


#: Tags that an agent gives a memory.
AgentTags = Annotated[NewLabels, Field(max_length=MAX_AGENT_TAGS)]


class _Add(Frozen):
    content: Annotated[Content, Field(description="What to remember: one fact, in words that stand on their own.")]
    category: Annotated[str, Field(json_schema_extra={"enum": [str(each) for each in MemoryCategory]})] = "semantic"
    tags: AgentTags = ()


class _Update(Frozen):
    memory_id: Annotated[MemoryId, Field(description="The id that a search has shown.")]
    content: Annotated[Content, Field(description="The whole new text; it replaces the old one.")]


class _Forget(Frozen):
    memory_id: Annotated[MemoryId, Field(description="The id that a search has shown.")]


def one_category(name: str, *, of: frozenset[MemoryCategory] = frozenset(MemoryCategory)) -> MemoryCategory:
    """Return the category of this name. Raises ToolRefusedError, which names those that may be used."""
    known, _ = known_categories((name,), of=of)
    if not known:
        raise ToolRefusedError(f"category: must be one of {', '.join(sorted(of))}.")
    return next(iter(known))


def writing_tools(writer: MemoryWriter) -> tuple[Tool, ...]:
    """Return add_memory, update_memory and forget_memory."""

    async def add(agent_id: str, given: _Add) -> str:
        tags = writer.checked_tags(given.tags)
        request = writer.request(one_category(given.category), given.content, tags=tags, is_self_edited=False)
        return f"Stored as {await writer.add(agent_id, request)}."

    async def update(agent_id: str, given: _Update) -> str:
        written = await writer.update(agent_id, given.memory_id, content=given.content)
        return f"Updated; it is {written.id} now. The old text is kept in its history."

    async def forget(agent_id: str, given: _Forget) -> str:
        await writer.forget(agent_id, given.memory_id)
        return "Forgotten. An operator can undo it."

    return (
        tool("add_memory", "Remember something for later tasks. It can be found at once.", _Add, add),
        tool(
            "update_memory",
            "Replace the text of a memory of yours that is wrong or out of date.",
            _Update,
            update,
            destructive=True,
        ),
        tool(
            "forget_memory", "Remove a memory of yours that is wrong or of no use.", _Forget, forget, destructive=True
        ),
    )
