"""``Memory`` and ``AsyncMemory``: the memories of an engine's agents, in one object.

Writes go over the queue to the workers. Reads run in the engine's own process, with no queue between. Nothing is opened
before the first call, and a read opens what reading needs: an engine that only stores needs no library to read.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, TypeVar, Unpack

from pydantic import ValidationError

from memcore.client.async_client import AsyncMemoryClient
from memcore.client.client import MemoryClient
from memcore.client.receipts import (
    AppliedReceipt,
    DistillReceipt,
    ExperienceReceipt,
    JobReceipt,
    JobStatus,
    StoreReceipt,
)
from memcore.errors import MemoryInputError
from memcore.execution_trace import ExecutionTrace
from memcore.extras import naming_extras
from memcore.jobs.skill_payloads import ApplicationOutcome
from memcore.loop_thread import LoopThread
from memcore.models import MemoryCategory, MemoryEntry, MemoryQuery, MemoryStoreRequest

if TYPE_CHECKING:
    from memcore.backends.protocol import MemoryBackend
    from memcore.chat_message import ChatMessage
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.retrieval.context import ContextInjectionStrategy
    from memcore.retrieval.use import BufferedUseRecorder

#: Seconds that ``wait`` waits unless told otherwise: a store job takes milliseconds, behind a full queue a few seconds.
WAIT_SECONDS = 30.0

#: The fields of a memory that its metadata holds; here they stand beside the others.
_METADATA_FIELDS = ("source", "confidence", "tags")

#: The fields that say where a memory was made.
_SCOPE_FIELDS = ("session_id", "project_id", "task_id")

#: What can be waited for: receipts, or the ids of jobs.
Jobs: TypeAlias = StoreReceipt | JobReceipt | DistillReceipt | ExperienceReceipt | str | Iterable[str]

#: Makes a backend that is not connected.
BackendFactory: TypeAlias = "Callable[[], MemoryBackend]"

_Result = TypeVar("_Result")


class StoreFields(TypedDict, total=False):
    """What may be said of a memory beside its text.

    Attributes:
        category: ``working``, ``episodic``, ``semantic``, ``procedural`` or ``social``; ``semantic`` when left out.
        namespace: routing key inside the agent; ``default`` when left out.
        source: where it comes from, such as a conversation.
        confidence: 0 to 1; 1 when left out.
        tags: labels to filter by.
        expires_at: when it may be removed, with a time zone; never when left out.
        session_id: the session it was made in; agents of level session need it.
        project_id: the project it was made in; agents of level project need it.
        task_id: the task it was made in; working memories end with it.
    """

    category: str
    namespace: str
    source: str | None
    confidence: float
    tags: Collection[str]
    expires_at: datetime | None
    session_id: str | None
    project_id: str | None
    task_id: str | None


class SearchFields(TypedDict, total=False):
    """What narrows a search; all of it must hold.

    Attributes:
        categories: any of these categories.
        namespaces: any of these namespaces.
        tags: all of these tags.
        since: created at this time or later.
        until: created before this time.
        min_relevance: least score, 0 to 1.
        limit: most memories, 1 to 1000; 10 when left out.
    """

    categories: Collection[str] | None
    namespaces: Collection[str] | None
    tags: Collection[str]
    since: datetime | None
    until: datetime | None
    min_relevance: float
    limit: int


class Memory:
    """Store, find and prepare the memories of agents. Thread-safe; use it in a ``with`` block, or close it.

    ::

        with Memory.from_environment() as memory:
            memory.store("oncall", "The payment queue pages at 500 messages.")
            found = memory.search("oncall", "when does payments page?", limit=3)

    It works beside a running event loop too, where each call holds up the loop; AsyncMemory does not. Make it after a
    fork, not before.

    Args:
        client: sends what is written; closed with this object.
        open_backend: makes the backend that is read from; called with the first read, and again after ``close``.
        policy: says how memories are prepared for a prompt.
    """

    def __init__(self, client: MemoryClient, *, open_backend: BackendFactory, policy: "Policy") -> None:
        self._client = client
        self._open_backend = open_backend
        self._policy = policy
        self._reading: _ReadingThread | None = None
        self._changed = threading.Condition()

    @classmethod
    def from_environment(cls) -> Self:
        """Return the memory of the stack that the environment names, or of the one that `memtend up` started.

        Settings and policy are read here, once; nothing is connected yet.

        Raises:
            MemoryConfigError: a setting or the policy is wrong, or no stack is named and none runs; the sentence says
                what to change.
        """
        settings, policy = _environment()
        return cls.from_settings(settings, policy)

    @classmethod
    def from_settings(cls, settings: "Settings", policy: "Policy") -> Self:
        """Return the memory of the stack that the settings describe."""
        client = MemoryClient.from_settings(settings)
        return cls(client, open_backend=lambda: _shared_backend(settings, policy), policy=policy)

    @property
    def client(self) -> MemoryClient:
        """The client beneath, for every other job: maintain_now, undo, end_session, record_experience, status, ..."""
        return self._client

    def store(self, agent_id: str, content: str, **fields: Unpack[StoreFields]) -> StoreReceipt:
        """Send one memory to the workers, and return once the broker holds it; ``wait`` for it to read it at once.

        Storing the same text of the same agent again writes nothing twice.

        Args:
            agent_id: whose memory.
            content: the text, up to 64 KiB, kept exactly as given.
            fields: ``category``, ``tags``, ``session_id`` and what else StoreFields has.

        Raises:
            MemoryInputError: a field breaks a limit; the message names it, and nothing was sent.
            MemoryConnectionError: the broker cannot be reached; store it again.
            MemoryQueueFullError: the queue holds as much as it may; nothing was sent.
            MemoryDiskFullError: the broker's disk has too little room; nothing was sent.
        """
        request, scope = _divided(fields)
        with _named_as_given():
            return self._client.store(agent_id, {**request, "content": content}, scope=scope)

    def store_many(
        self,
        agent_id: str,
        memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]],
        **fields: Unpack[StoreFields],
    ) -> StoreReceipt:
        """Send many memories of one agent in few jobs; all are checked before the first is sent.

        Args:
            agent_id: whose memories.
            memories: texts; or, where they differ in more than their text, MemoryStoreRequests or mappings of such
                fields.
            fields: as for ``store``; they describe the texts. Session, project and task are those of all.

        Raises:
            MemoryInputError: as for store; the message says which memory.
            MemoryConnectionError: the broker cannot be reached; some may have been sent, and sending all again writes
                nothing twice.
            MemoryQueueFullError: the queue holds as much as it may.
            MemoryDiskFullError: the broker's disk has too little room.
        """
        request, scope = _divided(fields)
        with _named_as_given():
            return self._client.store_many(agent_id, _described(memories, request), scope=scope)

    def search(
        self, agent_id: str, text: str | None = None, **filters: Unpack[SearchFields]
    ) -> tuple[MemoryEntry, ...]:
        """Return the agent's memories that match, best first; without a text the newest first.

        Args:
            agent_id: whose memories.
            text: what to look for, by meaning and by words.
            filters: ``limit``, ``categories``, ``tags`` and what else SearchFields has.

        Raises:
            MemoryInputError: a filter breaks a limit; the message names it.
            MemoryConnectionError: the store cannot be reached.
            MemoryRetrievalError: the search failed; search again.
            MemoryConfigError: a library for reading is missing, or the configured backend cannot be read from here.
        """
        query = _query(text, filters)
        return self._read(lambda reader: reader.search(agent_id, query))

    def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return one memory, None when the agent has none with this id; raises as ``search``."""
        return self._read(lambda reader: reader.get(agent_id, memory_id))

    def prepare(
        self, agent_id: str, text: str, *, token_budget: int, categories: Collection[str] | None = None
    ) -> "tuple[ChatMessage, ...]":
        """Return the messages to put between the system prompt and the task: policies, directive, memories.

        What fails once the store was reached is done without, and a log event names it. Which memories were shown is
        counted, in batches.

        Args:
            agent_id: who asks.
            text: what the coming turn is about.
            token_budget: most tokens of policies and memories.
            categories: only memories of these; all when left out.

        Raises:
            MemoryInputError: one of the categories does not exist.
            MemoryConnectionError: the store cannot be reached.
            MemoryConfigError: as for search.
        """
        wanted = _categories(categories)
        return self._read(lambda reader: reader.prepare(agent_id, text, token_budget=token_budget, categories=wanted))

    def distill(
        self,
        agent_id: str,
        trace: ExecutionTrace | Mapping[str, Any],
        *,
        session_id: str | None = None,
        project_id: str | None = None,
    ) -> DistillReceipt | None:
        """Send how a task went, when it has ended; a memory, an experience and a trajectory come of it.

        An engine's task never fails for it: None, with a warning in the log, when it could not be sent.

        Args:
            agent_id: who worked on the task.
            trace: how it went, or a mapping of its fields.
            session_id: the session in which.
            project_id: the project in which.

        Raises:
            MemoryInputError: a field breaks a limit; nothing was sent.
        """
        scope = {"session_id": session_id, "project_id": project_id}
        with _named_as_given():
            return self._client.distill(agent_id, trace, scope=scope)

    def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """Tell that an agent did as a skill or lesson says, and how it went: ``success`` or ``failure``.

        None, with a warning in the log, when it could not be sent. The same task applies a skill once.

        Raises:
            MemoryInputError: a field breaks a limit; nothing was sent.
        """
        return self._client.applied(agent_id, skill_id, outcome, task_id=task_id)

    def wait(self, jobs: Jobs, *, timeout_seconds: float = WAIT_SECONDS) -> tuple[JobStatus, ...]:
        """Wait until jobs have ended, and return what became of them: look at ``state`` and ``reason``.

        Args:
            jobs: a receipt, the id of a job, or several ids.
            timeout_seconds: how long in all.

        Raises:
            TimeoutError: some had not ended in time.
            MemoryConnectionError: outcomes cannot be read.
        """
        return tuple(self._client.wait(_job_ids(jobs), timeout_seconds=timeout_seconds))

    def close(self) -> None:
        """Wait for reads that are running, send what was counted, close the connections.

        A call after it opens them again.
        """
        with self._changed:
            reading, self._reading = self._reading, None
            if reading is not None:
                self._changed.wait_for(lambda: reading.calls == 0)
        try:
            if reading is not None:
                reading.close()
        finally:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, call: "Callable[[_Reader], Coroutine[Any, Any, _Result]]") -> _Result:
        with self._borrowed() as reading:
            return reading.run(call)

    @contextmanager
    def _borrowed(self) -> "Iterator[_ReadingThread]":
        # Counted, so that close takes no loop from under a call: its caller would wait for an answer forever.
        with self._changed:
            if self._reading is None:
                self._reading = _ReadingThread(_Reader(self._client, self._open_backend, self._policy))
            reading = self._reading
            reading.calls += 1
        try:
            yield reading
        finally:
            with self._changed:
                reading.calls -= 1
                self._changed.notify_all()


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
        self._reader = _Reader(client.blocking, open_backend, policy)

    @classmethod
    def from_environment(cls) -> Self:
        """Return the memory of the stack that the environment names; see Memory.from_environment."""
        settings, policy = _environment()
        return cls.from_settings(settings, policy)

    @classmethod
    def from_settings(cls, settings: "Settings", policy: "Policy") -> Self:
        """Return the memory of the stack that the settings describe."""
        client = AsyncMemoryClient.from_settings(settings)
        return cls(client, open_backend=lambda: _shared_backend(settings, policy), policy=policy)

    @property
    def client(self) -> AsyncMemoryClient:
        """The client beneath, for every other job."""
        return self._client

    async def store(self, agent_id: str, content: str, **fields: Unpack[StoreFields]) -> StoreReceipt:
        """Send one memory to the workers; returns once the broker holds it."""
        request, scope = _divided(fields)
        with _named_as_given():
            return await self._client.store(agent_id, {**request, "content": content}, scope=scope)

    async def store_many(
        self,
        agent_id: str,
        memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]],
        **fields: Unpack[StoreFields],
    ) -> StoreReceipt:
        """Send many memories of one agent in few jobs; all are checked before the first is sent."""
        request, scope = _divided(fields)
        with _named_as_given():
            return await self._client.store_many(agent_id, _described(memories, request), scope=scope)

    async def search(
        self, agent_id: str, text: str | None = None, **filters: Unpack[SearchFields]
    ) -> tuple[MemoryEntry, ...]:
        """Return the agent's memories that match, best first; without a text the newest first."""
        return await self._reader.search(agent_id, _query(text, filters))

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return one memory, None when the agent has none with this id."""
        return await self._reader.get(agent_id, memory_id)

    async def prepare(
        self, agent_id: str, text: str, *, token_budget: int, categories: Collection[str] | None = None
    ) -> "tuple[ChatMessage, ...]":
        """Return the messages to put between the system prompt and the task: policies, directive, memories."""
        wanted = _categories(categories)
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
        with _named_as_given():
            return await self._client.distill(agent_id, trace, scope=scope)

    async def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """Tell that an agent did as a skill says; None, with a warning in the log, when it could not be sent."""
        return await self._client.applied(agent_id, skill_id, outcome, task_id=task_id)

    async def wait(self, jobs: Jobs, *, timeout_seconds: float = WAIT_SECONDS) -> tuple[JobStatus, ...]:
        """Wait until jobs have ended, and return what became of them; raises TimeoutError."""
        ended = self._client.wait(_job_ids(jobs), timeout_seconds=timeout_seconds)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What reading needs, open."""

    loop: asyncio.AbstractEventLoop
    backend: "MemoryBackend"
    strategy: "ContextInjectionStrategy"
    recorder: "BufferedUseRecorder"


class _Reader:
    """Reads in one event loop; opens what it needs with the first read, once."""

    def __init__(self, client: MemoryClient, open_backend: BackendFactory, policy: "Policy") -> None:
        self._client = client
        self._open_backend = open_backend
        self._policy = policy
        self._opened: _Opened | None = None
        self._opening = asyncio.Lock()

    async def search(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        return await (await self._open()).backend.retrieve(agent_id, query)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        return await (await self._open()).backend.get(agent_id, memory_id)

    async def prepare(
        self, agent_id: str, text: str, *, token_budget: int, categories: frozenset[MemoryCategory] | None
    ) -> "tuple[ChatMessage, ...]":
        strategy = (await self._open()).strategy
        return await strategy.prepare_messages(agent_id, text, token_budget, categories=categories)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            # It sends a last batch, and waits for a broker that is away.
            await asyncio.to_thread(opened.recorder.close)
        finally:
            await opened.backend.disconnect()

    async def _open(self) -> _Opened:
        async with self._opening:
            if self._opened is None:
                # In a thread: libraries and the embedder's model take a second to load.
                opened = await asyncio.to_thread(self._made, asyncio.get_running_loop())
                try:
                    await opened.backend.connect()
                except BaseException:
                    await opened.backend.disconnect()
                    raise
                self._opened = opened
        if self._opened.loop is not asyncio.get_running_loop():
            raise RuntimeError("this AsyncMemory reads in another event loop: make one for each loop, or use Memory")
        return self._opened

    def _made(self, loop: asyncio.AbstractEventLoop) -> _Opened:
        with naming_extras():
            # Their libraries come with an extra that an engine which only stores does not have.
            from memcore.retrieval.context import ContextInjectionStrategy  # noqa: PLC0415  # see above
            from memcore.retrieval.use import BufferedUseRecorder  # noqa: PLC0415  # see above

            backend = self._open_backend()
        recorder = BufferedUseRecorder(self._client.record_use)
        strategy = ContextInjectionStrategy.from_policy(self._policy, backend=backend, use_recorder=recorder)
        return _Opened(loop=loop, backend=backend, strategy=strategy, recorder=recorder)


class _ReadingThread:
    """A reader in an event loop of its own thread; ``calls`` counts those that are running."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._loop = LoopThread("memtend-memory")
        self.calls = 0

    def run(self, call: Callable[[_Reader], Coroutine[Any, Any, _Result]]) -> _Result:
        return self._loop.run(call(self._reader))

    def close(self) -> None:
        try:
            self._loop.run(self._reader.close())
        finally:
            self._loop.close()


def _environment() -> "tuple[Settings, Policy]":
    # Reading YAML and addresses takes a while to import: `import memcore` does without.
    from memcore.config.loader import effective_policy  # noqa: PLC0415  # see above
    from memcore.config.settings import Settings  # noqa: PLC0415  # see above

    settings = Settings.load(os.environ)
    return settings, effective_policy(settings.policy_path)


def _shared_backend(settings: "Settings", policy: "Policy") -> "MemoryBackend":
    from memcore.backends.factory import (  # noqa: PLC0415  # with the first read, see _Reader
        create_engine_backend,
        require_shared_backends,
    )

    # What workers write into their own process could never be read here.
    require_shared_backends(policy)
    return create_engine_backend(settings, policy)


def _divided(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields as those of a MemoryStoreRequest without its text, and those of a Scope."""
    request: dict[str, Any] = {"category": MemoryCategory.SEMANTIC}
    metadata: dict[str, Any] = {}
    scope: dict[str, Any] = {}
    for name, value in fields.items():
        place = metadata if name in _METADATA_FIELDS else scope if name in _SCOPE_FIELDS else request
        place[name] = value
    return {**request, "metadata": metadata}, scope


def _described(
    memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]], request: Mapping[str, Any]
) -> Iterator[MemoryStoreRequest | Mapping[str, Any]]:
    if isinstance(memories, (str, Mapping)):
        raise MemoryInputError("memories", "must be several memories; store takes a single one")
    for each in memories:
        yield {**request, "content": each} if isinstance(each, str) else each


@contextmanager
def _named_as_given() -> Iterator[None]:
    """Name a wrong field as the caller wrote it."""
    try:
        yield
    except MemoryInputError as error:
        parts = [part for part in error.field.split(".") if part not in {"metadata", "scope"}]
        if parts and parts[0] == "requests":
            parts[0] = "memories"
        raise MemoryInputError(".".join(parts) or error.field, error.problem) from None


def _query(text: str | None, filters: Mapping[str, Any]) -> MemoryQuery:
    try:
        return MemoryQuery.model_validate({**filters, "text": text})
    except ValidationError as error:
        raise MemoryInputError.of(error) from None


def _categories(given: Collection[str] | None) -> frozenset[MemoryCategory] | None:
    return _query(None, {"categories": given}).categories


def _job_ids(jobs: Jobs) -> tuple[str, ...]:
    match jobs:
        case StoreReceipt():
            return jobs.job_ids
        case JobReceipt() | DistillReceipt() | ExperienceReceipt():
            return (jobs.job_id,)
        case str():
            return (jobs,)
        case _:
            return tuple(jobs)
