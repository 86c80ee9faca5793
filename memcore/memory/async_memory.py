"""``AsyncMemory``: Memory for engines that run an event loop."""

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from memcore.client.async_client import AsyncMemoryClient
from memcore.client.results import AppliedReceipt, DistillReceipt, JobStatus, StoreReceipt
from memcore.jobs.payloads import ApplicationOutcome
from memcore.memory.fields import (
    WAIT_SECONDS,
    Jobs,
    SearchFields,
    StoreFields,
    checked_categories,
    checked_query,
    job_ids_of,
    named_as_given,
    split_fields,
    with_fields,
)
from memcore.memory.reader import BackendFactory, Reader, load_environment, open_shared_backend
from memcore.models.execution import ExecutionTrace
from memcore.models.memory import MemoryEntry, MemoryStoreRequest

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.models.execution import ChatMessage


class AsyncMemory:
    """Store, find and prepare the memories of agents from coroutines; every method does what Memory's does.

    ::

        async with AsyncMemory.from_environment() as memory:
            await memory.store("oncall", "The payment queue pages at 500 messages.")
            found = await memory.search("oncall", "when does payments page?", limit=3)

    No call holds up the event loop. Reads belong to the loop of the first read; make another AsyncMemory for another
    loop.

    Args:
        client: sends what is written; closed with this object.
        open_backend: makes the backend that is read from; called in a thread with the first read, and again after
            ``close``.
        policy: says how memories are prepared for a prompt.
    """

    def __init__(self, client: AsyncMemoryClient, *, open_backend: BackendFactory, policy: "Policy") -> None:
        self._client = client
        self._reader = Reader(client.blocking, open_backend, policy)

    @classmethod
    def from_environment(cls) -> Self:
        """Return the memory of the stack that the environment names; see Memory.from_environment."""
        settings, policy = load_environment()
        return cls.from_settings(settings, policy)

    @classmethod
    def from_settings(cls, settings: "Settings", policy: "Policy") -> Self:
        """Return the memory of the stack that the settings describe."""
        client = AsyncMemoryClient.from_settings(settings)
        return cls(client, open_backend=lambda: open_shared_backend(settings, policy), policy=policy)

    @property
    def client(self) -> AsyncMemoryClient:
        """The client beneath, for every other job."""
        return self._client

    async def store(self, agent_id: str, content: str, **fields: Unpack[StoreFields]) -> StoreReceipt:
        """Send one memory to the workers; returns once the broker holds it."""
        request, scope = split_fields(fields)
        with named_as_given():
            return await self._client.store(agent_id, {**request, "content": content}, scope=scope)

    async def store_many(
        self,
        agent_id: str,
        memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]],
        **fields: Unpack[StoreFields],
    ) -> StoreReceipt:
        """Send many memories of one agent in few jobs; all are checked before the first is sent."""
        request, scope = split_fields(fields)
        with named_as_given():
            return await self._client.store_many(agent_id, with_fields(memories, request), scope=scope)

    async def search(
        self, agent_id: str, text: str | None = None, **filters: Unpack[SearchFields]
    ) -> tuple[MemoryEntry, ...]:
        """Return the agent's memories that match, best first; without a text the newest first."""
        return await self._reader.search(agent_id, checked_query(text, filters))

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return one memory, None when the agent has none with this id."""
        return await self._reader.get(agent_id, memory_id)

    async def prepare(
        self, agent_id: str, text: str, *, token_budget: int, categories: Collection[str] | None = None
    ) -> "tuple[ChatMessage, ...]":
        """Return the messages to put between the system prompt and the task: policies, directive, memories."""
        wanted = checked_categories(categories)
        return await self._reader.prepare(agent_id, text, token_budget=token_budget, categories=wanted)

    async def distill(
        self,
        agent_id: str,
        trace: ExecutionTrace | Mapping[str, Any],
        *,
        session_id: str | None = None,
        project_id: str | None = None,
    ) -> DistillReceipt | None:
        """Send how a task went; None, with a warning in the log, when it could not be sent."""
        scope = {"session_id": session_id, "project_id": project_id}
        with named_as_given():
            return await self._client.distill(agent_id, trace, scope=scope)

    async def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """Report that an agent applied a skill; None, with a warning in the log, when it could not be sent."""
        return await self._client.applied(agent_id, skill_id, outcome, task_id=task_id)

    async def wait(self, jobs: Jobs, *, timeout_seconds: float = WAIT_SECONDS) -> tuple[JobStatus, ...]:
        """Wait until jobs have ended, and return what became of them; raises TimeoutError."""
        ended = self._client.wait(job_ids_of(jobs), timeout_seconds=timeout_seconds)
        return tuple([status async for status in ended])

    async def close(self) -> None:
        """Send what was counted and close the connections, once no call is running; a call after it opens them."""
        try:
            await self._reader.close()
        finally:
            await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
