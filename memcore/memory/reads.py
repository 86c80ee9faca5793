"""The reads of Memory and AsyncMemory, and their calls on single memories: list, change, forget, and history."""

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from memcore.memory.conversation import ConversationReader, LoadFields, required
from memcore.memory.fields import (
    AskFields,
    SearchFields,
    StoreFields,
    checked_query,
    checked_question,
    named_as_given,
    split_fields,
)
from memcore.memory.reader import Reader
from memcore.memory.stock_mem0 import Mem0Opener, required_opener
from memcore.models.asking import Answer
from memcore.models.base import naming_fields
from memcore.models.memory import MemoryEntry, MemoryStoreRequest

if TYPE_CHECKING:
    import mem0

    from memcore.conversation.entries import TurnContext
    from memcore.models.execution import PreparedMessages, ToolDefinition
    from memcore.models.memory_changes import ForgetReceipt, ListFields, MemoryPage, MemoryVersion, UpdateFields


class Reads:
    """The calls that need the store or the ledger; each is written here, and Memory has it as one that blocks.

    All raise MemoryInputError naming a wrong field, MemoryConnectionError where store or ledger cannot be reached, and
    MemoryConfigError where a library for reading is missing.
    """

    def __init__(
        self, reader: Reader, *, conversation: ConversationReader | None, open_mem0: "Mem0Opener | None"
    ) -> None:
        self._reader = reader
        self._conversation = conversation
        self._open_mem0 = open_mem0

    async def search(
        self, agent_id: str, text: str | None = None, **filters: Unpack[SearchFields]
    ) -> tuple[MemoryEntry, ...]:
        """Return the agent's memories that match by meaning and by words, best first; without a text the newest first.

        Raises:
            MemoryInputError: a filter breaks a limit; the message names it.
            MemoryConnectionError: the store cannot be reached.
            MemoryRetrievalError: the search failed; search again.
            MemoryConfigError: a library for reading is missing, or the configured backend cannot be read from here.
        """
        query = checked_query(text, filters)
        return await (await self._reader.open()).search(agent_id, query)

    async def ask(self, agent_id: str, question: str, **fields: Unpack[AskFields]) -> Answer:
        """Answer a question in a few sentences from what a search finds, each with the ids of the memories it rests on.

        A sentence is kept only where its memories bear it out. ``answered_by`` of the answer is ``nothing`` where it is
        not known, and ``passages`` where no model answered: none is configured (``memory.llm``), it failed, was too
        slow, or the agent's budget is used up; ``reason`` says which. The passages that were found are there always,
        with their dates and whose they are. Nothing is written but the account of the question.

        Raises:
            MemoryInputError: a field breaks a limit; the message names it.
            MemoryConnectionError: the store cannot be reached.
            MemoryConfigError: as for search.
        """
        asked = checked_question(question, fields)
        return await (await self._reader.open()).ask(agent_id, asked)

    async def prepare(
        self,
        agent_id: str,
        text: str,
        *,
        token_budget: int,
        categories: Collection[str] | None = None,
        require_all: bool = False,
        time_zone: str | None = None,
        min_authority: str | None = None,
    ) -> "PreparedMessages":
        """Return the messages to put between the system prompt and the task: policies, directive, memories.

        ``text`` says what the coming turn is about. Policies and memories take ``token_budget`` tokens at most.
        A part that fails once the store was reached is left out: ``degraded`` of the answer names it, and the last
        message says it. With ``require_all`` it is an error. Uses are counted, in batches. ``time_zone`` and
        ``min_authority`` are as in search; policies of people and the directive are there always.

        Raises:
            MemoryInputError: an argument breaks a limit, as a negative budget.
            MemoryConnectionError: the store cannot be reached, or with ``require_all`` a part of the answer.
            MemoryConfigError: as for search.
        """
        about = {"categories": categories, "time_zone": time_zone, "min_authority": min_authority}
        query = checked_query(None, about)
        opened = await self._reader.open()
        return await opened.prepare(
            agent_id,
            text,
            token_budget=token_budget,
            categories=query.categories,
            require_all=require_all,
            time_zone=query.time_zone,
            min_authority=query.min_authority,
        )

    async def load_turn(self, agent_id: str, text: str, **about: Unpack[LoadFields]) -> "TurnContext":
        """Return what is remembered of the person that an agent talks to, before it answers ``text``.

        The person is the user, or the session where no user is named. ``messages()`` of what comes back stands between
        the system prompt and the turn. With a session, its first turn is told from the others by what was recorded of
        it; an engine that knows better says ``is_first_turn``: that turn is shown the summary of the session before.

        Raises:
            MemoryInputError: an argument breaks a limit, or neither user nor session is given.
            MemoryConnectionError: the ledger cannot be reached. A store or an embedder that fails is done without:
                words alone are compared then, and ``reasons`` says so.
            MemoryConfigError: as for search.
        """
        return await required(self._conversation).load_turn(self._reader, agent_id, text, **about)

    async def tools(self, agent_id: str | None = None, *, writes: bool = False) -> "tuple[ToolDefinition, ...]":
        """Return the tools of ``memory.retrieval.strategy``; under ``context``, search_memory and recall_memory.

        With ``writes`` every tool there is: also those of self-editing, add_memory, update_memory, forget_memory. Hand
        a model ``definition.as_openai()`` or ``definition.as_mcp()``. Raises as ``search``.
        """
        del agent_id
        return (await self._reader.open()).tools(writes=writes).definitions()

    async def call_tool(
        self, agent_id: str, name: str, arguments: Mapping[str, Any] | str | None = None, *, writes: bool = False
    ) -> str:
        """Call a tool as a model asks for it, and return the text for the model; ``writes`` as for ``tools``.

        The arguments are a mapping, or the JSON text that the model wrote. An error is a text that begins with
        ``Error:``. Raises MemoryConnectionError and MemoryConfigError when the store cannot be opened at all.
        """
        return await (await self._reader.open()).call_tool(agent_id, name, arguments, writes=writes)

    async def mem0(self, agent_id: str) -> "mem0.Memory":
        """Return a mem0.Memory over this agent's memories: same collection, same history, same embedder.

        Close it after use. It adds with ``infer=False`` alone; it refuses ``reset``; its telemetry is off. Open it anew
        after a reindex.

        Raises:
            MemoryInputError: nothing can be stored under this agent id.
            MemoryConfigError: the extra ``memtend[mem0]`` is missing, the history is not SQLite, or mem0 was imported
                with its telemetry on.
            MemoryConnectionError: the store cannot be reached.
        """
        opener = required_opener(self._open_mem0)
        # In a thread: the first import takes seconds.
        return await asyncio.to_thread(opener, (await self._reader.open()).backend, agent_id)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return one memory, None when the agent has none; the id of an old version leads to the one of today."""
        return await (await self._reader.open()).get(agent_id, memory_id)

    async def get_by_key(self, agent_id: str, key: str, *, namespace: str = "default") -> MemoryEntry | None:
        """Return the memory with this key of yours in a namespace, None when there is none."""
        return await (await self._reader.open()).kept.get_by_key(agent_id, key, namespace=namespace)

    async def list(
        self, agent_id: str, *, limit: int = 100, cursor: str | None = None, **filters: "Unpack[ListFields]"
    ) -> "MemoryPage":
        """Return 1 to 256 memories that meet all filters, oldest first; ``cursor`` of a page gives the next one."""
        return await (await self._reader.open()).kept.list(agent_id, limit=limit, cursor=cursor, **filters)

    async def namespaces(self, agent_id: str) -> tuple[str, ...]:
        """Return the namespaces in which the agent has memories."""
        return await (await self._reader.open()).kept.namespaces(agent_id)

    async def count(self, agent_id: str, *, category: str | None = None) -> int:
        """Return how many memories the agent has."""
        return await (await self._reader.open()).kept.count(agent_id, category=category)

    async def put(
        self, agent_id: str, content: str, *, only_new: bool = False, **fields: Unpack[StoreFields]
    ) -> MemoryEntry:
        """Write one memory now, without the queue, and return it as it is found from here on.

        ``store`` goes on while the store server is down; this call raises MemoryConnectionError then. With ``only_new``
        it raises MemoryConflictError where the key has a memory: of several at one moment, one is written.
        """
        request, scope = split_fields(fields)
        with named_as_given(), naming_fields():
            wanted = MemoryStoreRequest.model_validate({**request, "content": content})
        with named_as_given():
            return await (await self._reader.open()).kept.put(agent_id, wanted, scope=scope, only_new=only_new)

    async def update(
        self, agent_id: str, memory_id: str, *, expected: str | None = None, **fields: "Unpack[UpdateFields]"
    ) -> MemoryEntry:
        """Change a memory at once, and return its new version; the version before is journaled, and can be undone.

        Fields that are left out stay as they are. ``expected`` is the id of the version to change, ``memory_id`` itself
        where it is left out, ``*`` any. Raises MemoryConflictError where another version is there: read it, and try
        again. Raises MemoryNotFoundError when the agent has no such memory.
        """
        with named_as_given():
            return await (await self._reader.open()).kept.update(agent_id, memory_id, expected=expected, **fields)

    async def forget(
        self,
        agent_id: str,
        memory_ids: str | Collection[str] | None = None,
        *,
        everything: bool = False,
        expected: str | None = None,
        **filters: "Unpack[ListFields]",
    ) -> "ForgetReceipt":
        """Forget memories by their ids, by filters, or all; ``client.undo(agent_id, receipt.run_id)`` brings them back.

        ``expected`` is the version of a single memory. Raises MemoryConflictError where another one is there;
        MemoryInputError unless ids, filters or ``everything`` is given, one of them.
        """
        kept = (await self._reader.open()).kept
        return await kept.forget(agent_id, memory_ids, everything=everything, expected=expected, **filters)

    async def history(self, agent_id: str, memory_id: str) -> "tuple[MemoryVersion, ...]":
        """Return what became of a memory, oldest first; raises MemoryNotFoundError when the agent never had it."""
        return await (await self._reader.open()).kept.history(agent_id, memory_id)
