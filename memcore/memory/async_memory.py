"""``AsyncMemory``: Memory for engines that run an event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from memcore.client.async_client import AsyncMemoryClient, awaited
from memcore.client.results import JobStatus
from memcore.errors import MemoryConfigError
from memcore.memory.conversation import (
    ConversationReader,
    checked_mode,
)
from memcore.memory.fields import (
    WAIT_SECONDS,
    AskFields,
    Jobs,
    checked_question,
    job_ids_of,
)
from memcore.memory.memory import Memory, stack_parts
from memcore.memory.reader import (
    BackendFactory,
    OpenMemories,
    OpenModel,
    Reader,
    load_environment,
    open_shared_backend,
)
from memcore.memory.reads import Reads
from memcore.models.asking import AskEvent
from memcore.models.conversation import MemoryMode

if TYPE_CHECKING:
    from memcore.backends.protocol import MemoryBackend
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.llm.protocol import CompletionProvider
    from memcore.memory.incognito import AsyncIncognitoMemory, IncognitoMemory
    from memcore.memory.stock_mem0 import Mem0Opener
    from memcore.remote import AsyncRemoteMemory


class AsyncMemory(Reads):
    """Store, find and prepare the memories of agents from coroutines; every method does what Memory's does.

    ::

        async with AsyncMemory.from_environment() as memory:
            await memory.store("oncall", "The payment queue pages at 500 messages.")
            found = await memory.search("oncall", "when does payments page?", limit=3)

    No call holds up the event loop. Reads belong to the loop of the first read; make another AsyncMemory for another
    loop.
    """

    def __init__(
        self,
        client: AsyncMemoryClient,
        *,
        open_backend: BackendFactory,
        policy: "Policy",
        conversation: ConversationReader | None = None,
        open_incognito: "Callable[[], IncognitoMemory] | None" = None,
        open_mem0: "Mem0Opener | None" = None,
        open_memories: "OpenMemories | None" = None,
        open_model: "OpenModel | None" = None,
        ends_conversations: bool = True,
    ) -> None:
        self._client = client
        #: Writes go through it, in the client's threads.
        self.blocking = Memory(
            client.blocking,
            open_backend=open_backend,
            policy=policy,
            conversation=conversation,
            ends_conversations=ends_conversations,
        )
        self._run = client._run  # noqa: SLF001  # the threads are the client's
        reader = Reader(client.blocking, open_backend, policy, open_memories=open_memories, open_model=open_model)
        super().__init__(reader, conversation=conversation, open_mem0=open_mem0)
        self._open_incognito = open_incognito

    @classmethod
    def from_environment(cls, *, provider: "CompletionProvider | None" = None) -> Self:
        """Return the memory of the stack that the environment names; see Memory.from_environment."""
        return cls.from_settings(*load_environment(), provider=provider)

    @classmethod
    def from_settings(
        cls, settings: "Settings", policy: "Policy", *, provider: "CompletionProvider | None" = None
    ) -> Self:
        """Return the memory of the stack that the settings describe; see Memory.from_settings."""
        backend = partial(open_shared_backend, settings, policy)
        return memory_over(cls, settings, policy, backend, provider=provider)

    @staticmethod
    def connect(url: str, *, key: str | None = None, timeout_seconds: float = 30.0) -> "AsyncRemoteMemory":
        """Return the memory behind `memtend serve`; see Memory.connect."""
        from memcore.remote import AsyncRemoteMemory  # noqa: PLC0415  # see Memory.connect

        return AsyncRemoteMemory.connect(url, key=key, timeout_seconds=timeout_seconds)

    @property
    def client(self) -> AsyncMemoryClient:
        """The client beneath, for every other job."""
        return self._client

    async def backend(self) -> "MemoryBackend":
        """Return the connected backend beneath, which ``close`` disconnects; raises as ``search``."""
        return (await self._reader.open()).backend

    store = awaited(Memory.store)
    store_many = awaited(Memory.store_many)
    distill = awaited(Memory.distill)
    applied = awaited(Memory.applied)
    set_recall = awaited(Memory.set_recall)
    conversation_status = awaited(Memory.conversation_status)
    add = awaited(Memory.add)
    extract_turn = awaited(Memory.extract_turn)
    end_conversation = awaited(Memory.end_conversation)

    async def ask_stream(self, agent_id: str, question: str, **fields: Unpack[AskFields]) -> AsyncIterator[AskEvent]:
        """Answer as Memory.ask_stream does: ``async for part in await memory.ask_stream(...)``."""
        asked = checked_question(question, fields)
        opened = await self._reader.open()
        finding = await opened.find(agent_id, asked)

        async def parts() -> AsyncIterator[AskEvent]:
            yield finding.shown()
            for part in (await opened.answering.answer(finding)).parts():
                yield part

        return parts()

    async def in_mode(self, mode: MemoryMode | str) -> "AsyncMemory | AsyncIncognitoMemory":
        """Return what keeps conversations in a mode, as Memory.in_mode does; incognito's calls are awaited too."""
        if checked_mode(mode) is not MemoryMode.INCOGNITO:
            return self
        if self._open_incognito is None:
            raise MemoryConfigError("conversation: this memory was made without settings: make it with from_settings")
        blocking = await asyncio.to_thread(self._open_incognito)
        from memcore.memory.incognito import AsyncIncognitoMemory  # noqa: PLC0415  # its libraries are an extra's

        return AsyncIncognitoMemory(blocking)

    async def wait(self, jobs: Jobs, *, timeout_seconds: float = WAIT_SECONDS) -> tuple[JobStatus, ...]:
        ended = self._client.wait(job_ids_of(jobs), timeout_seconds=timeout_seconds)
        return tuple([status async for status in ended])

    async def close(self) -> None:
        """Send what was counted and close the connections, once no call is running; a call after it opens them."""
        try:
            await self._reader.close()
        finally:
            if self._conversation is not None:
                await asyncio.to_thread(self._conversation.close)
            await self._run(self.blocking._end_conversations)  # noqa: SLF001  # the sessions are the writer's
            await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


_Memory = TypeVar("_Memory", bound=AsyncMemory)


def memory_over(
    kind: type[_Memory],
    settings: "Settings",
    policy: "Policy",
    open_backend: BackendFactory,
    *,
    provider: "CompletionProvider | None" = None,
    ends_conversations: bool = True,
) -> _Memory:
    """Return the memory of the stack that the settings describe, with the backend that is opened so."""
    return kind(
        AsyncMemoryClient.from_settings(settings),
        open_backend=open_backend,
        policy=policy,
        ends_conversations=ends_conversations,
        **stack_parts(settings, policy, provider=provider),
    )
