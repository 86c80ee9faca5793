"""Reading in the engine's own process: what it needs is opened with the first read, once."""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from memcore.client.client import MemoryClient
from memcore.clock import utc_now
from memcore.deadline.limits import deadline, limited_parts, reading
from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.extras import naming_extras
from memcore.models.execution import PreparedMessages
from memcore.models.memory import require_agent_id, require_prompt, require_text
from memcore.models.origin import showing_least
from memcore.telemetry import tracing
from memcore.telemetry.tracing import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memcore.backends.protocol import MemoryBackend
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.embedding.protocol import Embedder
    from memcore.ledger.ledger import Ledger
    from memcore.llm.accounting import AccountedModel
    from memcore.llm.protocol import CompletionProvider
    from memcore.memories import Memories
    from memcore.models.asking import Answer, MemoryQuestion
    from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryQuery
    from memcore.models.origin import Authority
    from memcore.retrieval.strategies.answering import Answering, Finding
    from memcore.retrieval.strategies.factory import Strategy, StrategyParts
    from memcore.retrieval.strategies.tools import AgentTools
    from memcore.retrieval.usage import BufferedUseRecorder

#: Makes a backend that is not connected.
BackendFactory: TypeAlias = "Callable[[], MemoryBackend]"

#: Makes what changes the memories of a backend, with a ledger of its own.
OpenMemories: TypeAlias = "Callable[[MemoryBackend], Memories]"

#: Makes the model that retrieval asks, on the account of a ledger; None where no server is named.
OpenModel: TypeAlias = "Callable[[Ledger], AccountedModel | None]"

#: What OpenTelemetry calls a search.
SEARCH = "search_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What reads are made with, in the event loop that it was opened in."""

    loop: asyncio.AbstractEventLoop
    backend: "MemoryBackend"
    parts: "StrategyParts"
    strategy: "Strategy"
    answering: "Answering"
    recorder: "BufferedUseRecorder"
    keeps_queries: bool
    memories: "Memories | None" = None
    model: "AccountedModel | None" = None
    #: Tools by whether they write; making them takes milliseconds, more than a search.
    made_tools: "dict[bool, AgentTools]" = field(default_factory=dict, repr=False, compare=False)

    @property
    def deadline_seconds(self) -> float:
        """Seconds that a reading call takes at most."""
        return self.parts.policy.memory.retrieval.deadline_seconds

    @property
    def kept(self) -> "Memories":
        """What reads and changes single memories; MemoryConfigError for a memory that was made without settings."""
        if self.memories is None:
            raise MemoryConfigError("memory: this one was made without settings: make it with from_settings")
        return self.memories

    def tools(self, *, writes: bool) -> "AgentTools":
        """Return the tools of the strategy, or with ``writes`` every tool there is."""
        made = self.made_tools.get(writes)
        if made is None:
            from memcore.retrieval.strategies.factory import create_agent_tools, tools_of  # noqa: PLC0415  # see Reader

            made = create_agent_tools(self.parts) if writes else tools_of(self.strategy, self.parts)
            self.made_tools[writes] = made
        return made

    async def close(self) -> None:
        """Send the uses that were counted, and disconnect."""
        async with AsyncExitStack() as closing:
            if self.memories is not None:
                closing.callback(self.memories.ledger.close)
            if self.model is not None:
                closing.push_async_callback(self.model.close)
            closing.push_async_callback(self.backend.disconnect)
            # It sends a last batch, and waits for a broker that is away.
            await asyncio.to_thread(self.recorder.close)

    @reading
    async def get(self, agent_id: str, memory_id: str) -> "MemoryEntry | None":
        """Return a memory, or the version in its place."""
        require_text(memory_id, field="memory_id")
        if self.memories is not None:
            return await self.memories.get(agent_id, memory_id)
        found = await self.backend.get(agent_id, memory_id)
        return None if found is None else found.with_authority(self.parts.policy.memory.origins.authority)

    @reading
    async def search(self, agent_id: str, query: "MemoryQuery") -> "tuple[MemoryEntry, ...]":
        """Return what the store finds, and keep the question where the policy says so."""
        about = {Attribute.OPERATION: SEARCH, Attribute.STORE: self.parts.company, Attribute.AGENT: agent_id}
        with tracing.trace(SEARCH, about, kind="client") as step:
            authorities = self.parts.policy.memory.origins.authority
            found = await self.backend.retrieve(require_agent_id(agent_id), query.under(authorities))
            found = tuple(each.with_authority(authorities) for each in found)
            step.set({Attribute.MEMORIES: len(found)})
        if query.text is not None and self.keeps_queries:
            from memcore.retrieval.protocol import Degrading, Source  # noqa: PLC0415  # see Reader

            with Degrading(Source.QUERY_RECORDER, agent_id):
                self.recorder.record_query(agent_id, query.text, [entry.id for entry in found], at=utc_now())
        return found

    @reading
    async def find(self, agent_id: str, asked: "MemoryQuestion") -> "Finding":
        """Return what is found for a question, before a model is asked."""
        about = {Attribute.OPERATION: SEARCH, Attribute.STORE: self.parts.company, Attribute.AGENT: agent_id}
        with tracing.trace(SEARCH, about, kind="client") as step:
            found = await self.answering.find(agent_id, asked)
            step.set({Attribute.MEMORIES: len(found.memories)})
        return found

    async def ask(self, agent_id: str, asked: "MemoryQuestion") -> "Answer":
        """Return the answer to a question; the model has a time limit of its own, the question's."""
        return await self.answering.answer(await self.find(agent_id, asked))

    async def call_tool(
        self, agent_id: str, name: str, arguments: "Mapping[str, Any] | str | None", *, writes: bool
    ) -> str:
        """Return the answer of a tool; one that only reads has the deadline of a read."""
        tools = self.tools(writes=writes)
        if not any(each.name == name and each.read_only for each in tools.definitions()):
            return await tools.call(agent_id, name, arguments)
        async with deadline(self.deadline_seconds):
            return await tools.call(agent_id, name, arguments)

    @reading
    async def prepare(
        self,
        agent_id: str,
        text: str,
        *,
        token_budget: int,
        categories: "frozenset[MemoryCategory] | None",
        require_all: bool = False,
        time_zone: str | None = None,
        min_authority: "Authority | None" = None,
    ) -> PreparedMessages:
        """Return the messages of the strategy that the policy names, and what did not answer."""
        from memcore.retrieval.protocol import UNNEEDED, noting_degraded  # noqa: PLC0415  # see Reader

        require_prompt(text, token_budget)
        about = {Attribute.OPERATION: SEARCH, Attribute.STORE: self.parts.company, Attribute.AGENT: agent_id}
        with tracing.trace(SEARCH, about, kind="client"), showing_least(min_authority), noting_degraded() as failed:
            found = await self.strategy.prepare_messages(
                agent_id, text, token_budget, categories=categories, time_zone=time_zone
            )
        messages = PreparedMessages.of(found, degraded=(each.part for each in failed if each.source not in UNNEEDED))
        if require_all and messages.degraded:
            raise MemoryConnectionError(f"no answer of: {', '.join(messages.degraded)}", part=messages.degraded[0])
        return messages


class Reader:
    """Opens what reads need with the first of them, once, in one event loop."""

    def __init__(
        self,
        client: MemoryClient,
        open_backend: BackendFactory,
        policy: "Policy",
        *,
        open_memories: "OpenMemories | None" = None,
        open_model: "OpenModel | None" = None,
    ) -> None:
        self._client = client
        self._open_backend = open_backend
        self._policy = policy
        self._open_memories = open_memories
        self._open_model = open_model
        self._opened: Opened | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Send the uses that were counted, and disconnect; a read after it opens everything again."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def open(self) -> Opened:
        """Return what a read needs. Raises RuntimeError in another event loop than the first."""
        async with self._opening:
            if self._opened is None:
                # In a thread: libraries and the embedder's model take a second to load.
                opened = await asyncio.to_thread(self._assemble, asyncio.get_running_loop())
                try:
                    # Twice: the first call of all makes the collection.
                    with limited_parts(2 * opened.deadline_seconds):
                        await opened.backend.connect()
                except BaseException:
                    await opened.backend.disconnect()
                    raise
                self._opened = opened
        if self._opened.loop is not asyncio.get_running_loop():
            raise RuntimeError("this AsyncMemory reads in another event loop: make one for each loop, or use Memory")
        return self._opened

    def _assemble(self, loop: asyncio.AbstractEventLoop) -> Opened:
        with naming_extras():
            # Their libraries come with an extra that an engine which only stores does not have.
            from memcore.retrieval.strategies.factory import StrategyParts  # noqa: PLC0415  # see above
            from memcore.retrieval.usage import BufferedUseRecorder  # noqa: PLC0415  # see above

            backend = self._open_backend()
            memories = None if self._open_memories is None else self._open_memories(backend)
            model = None if self._open_model is None or memories is None else self._open_model(memories.ledger)
        keeps = self._policy.memory.retrieval.record_queries
        recorder = BufferedUseRecorder(
            self._client.record_use, send_queries=self._client.record_queries if keeps else None
        )
        parts = StrategyParts(
            policy=self._policy,
            backend=backend,
            company="default" if memories is None else memories.company,
            changes=memories,
            model=model,
            ledger=None if memories is None else memories.ledger,
            use_recorder=recorder,
            query_recorder=recorder,
        )
        return Opened(
            loop=loop,
            backend=backend,
            parts=parts,
            strategy=parts.strategy(),
            answering=parts.answering(),
            recorder=recorder,
            keeps_queries=keeps,
            memories=memories,
            model=model,
        )


def load_environment() -> "tuple[Settings, Policy]":
    """Return the settings and the policy of this process's environment. Raises MemoryConfigError."""
    # Reading YAML and addresses takes a while to import: `import memcore` does without.
    from memcore.config.loader import effective_policy  # noqa: PLC0415  # see above
    from memcore.config.settings import Settings  # noqa: PLC0415  # see above

    settings = Settings.load(os.environ)
    return settings, effective_policy(settings.policy_path)


def open_shared_backend(
    settings: "Settings", policy: "Policy", *, embedder: "Embedder | None" = None
) -> "MemoryBackend":
    """Return the backend that workers write to, not connected. Raises MemoryConfigError."""
    from memcore.backends.factory import create_engine_backend, require_shared_backends  # noqa: PLC0415  # with the first read, see Reader

    # Memories that workers keep in their own process could never be read here.
    require_shared_backends(policy)
    return create_engine_backend(settings, policy, embedder=embedder, is_readers=True)


def opening_memories(settings: "Settings", policy: "Policy") -> "OpenMemories":
    """Return what opens the memories of an installation over a backend."""

    def open_memories(backend: "MemoryBackend") -> "Memories":
        from memcore.backends.factory import WorkerBackend  # noqa: PLC0415  # with the first read, see Reader
        from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # see above
        from memcore.memories import Memories  # noqa: PLC0415  # see above

        if not isinstance(backend, WorkerBackend):
            raise MemoryConfigError("memory.backend: has no batch protocol, which single memories need")
        ledger = Ledger.open(settings.ledger_urls)
        return Memories(backend, ledger, company=settings.company, policy=policy)

    return open_memories


def opening_model(settings: "Settings", policy: "Policy", *, provider: "CompletionProvider | None" = None) -> OpenModel:
    """Return what makes the model: of ``provider``, or of the server that MEMTEND_LLM_URL names."""

    def open_model(ledger: "Ledger") -> "AccountedModel | None":
        from memcore.llm.accounting import create_model  # noqa: PLC0415  # with the first read, see Reader

        return create_model(settings, policy, ledger, provider=provider)

    return open_model
