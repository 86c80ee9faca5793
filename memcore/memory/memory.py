"""``Memory``: store, find and prepare the memories of agents, in any thread."""

import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, Unpack

from memcore.client.client import MemoryClient
from memcore.client.envelopes import TurnFields
from memcore.client.results import (
    AppliedReceipt,
    DistillReceipt,
    JobReceipt,
    JobStatus,
    StoreReceipt,
    TurnReceipt,
)
from memcore.errors import MemoryConfigError
from memcore.event_loop import LoopThread
from memcore.extras import naming_extras
from memcore.jobs import ApplicationOutcome
from memcore.memory.conversation import (
    AddResult,
    ConversationReader,
    checked_mode,
    checked_owner,
    required,
)
from memcore.memory.fields import (
    WAIT_SECONDS,
    AskFields,
    Jobs,
    StoreFields,
    checked_question,
    job_ids_of,
    named_as_given,
    split_fields,
    with_fields,
)
from memcore.memory.open_sessions import OpenSessions, SessionName
from memcore.memory.reader import (
    BackendFactory,
    OpenMemories,
    OpenModel,
    Reader,
    load_environment,
    open_shared_backend,
    opening_memories,
    opening_model,
)
from memcore.memory.reads import Reads
from memcore.memory.stock_mem0 import Mem0Opener, open_configured_mem0
from memcore.models.asking import Answer, AskEvent
from memcore.models.conversation import LayerCounts, MemoryMode
from memcore.models.execution import ExecutionTrace
from memcore.models.memory import MemoryStoreRequest

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.llm.protocol import CompletionProvider
    from memcore.memory.incognito import IncognitoMemory
    from memcore.remote import RemoteMemory
    from memcore.retrieval.strategies.answering import Finding


Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class _Reading:
    reader: Reader
    reads: Reads
    loop: LoopThread
    calls: int = 0


def blocking(
    call: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]:
    """Return a call of Reads as one of Memory, which waits for it in the thread of the reads."""

    @wraps(call)
    def run(self: "Memory", /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return self._call(lambda reading: call(reading.reads, *args, **kwargs))

    return run


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
        conversation: reads what is remembered of people; closed with this object. None where nobody asks for it.
        open_incognito: makes the memory of conversations that nothing holds but this process.
        open_mem0: opens a mem0.Memory on a backend, for an agent.
        open_memories: opens what lists, changes and forgets single memories. None where nobody asks for it.
        open_model: makes the language model that retrieval asks where the policy says so, on the account of a ledger.
        ends_conversations: whether ``close``, or the end of the process, ends the sessions of which it has sent turns;
            False for a server, whose clients go on with them.
    """

    def __init__(
        self,
        client: MemoryClient,
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
        idle = timedelta(minutes=policy.memory.conversation.idle_minutes)
        self._sessions = OpenSessions(client, idle=idle) if ends_conversations else None
        self._open_backend = open_backend
        self._open_memories = open_memories
        self._open_model = open_model
        self._policy = policy
        self._conversation = conversation
        self._open_incognito = open_incognito
        self._open_mem0 = open_mem0
        self._reading: _Reading | None = None
        self._changed = threading.Condition()

    @classmethod
    def from_environment(cls, *, provider: "CompletionProvider | None" = None) -> Self:
        """Return the memory of the stack that the environment names, or of the one that `memtend up` started.

        Settings and policy are read here, once; nothing is connected yet. A ``provider`` is the language model that
        retrieval asks where the policy says so, within the agents' budgets; without it MEMTEND_LLM_URL names one.

        Raises:
            MemoryConfigError: a setting or the policy is wrong, or no stack is named and none runs; the sentence says
                what to change.
        """
        return cls.from_settings(*load_environment(), provider=provider)

    @classmethod
    def from_settings(
        cls, settings: "Settings", policy: "Policy", *, provider: "CompletionProvider | None" = None
    ) -> Self:
        """Return the memory of the stack that the settings describe; ``provider`` as for ``from_environment``."""
        return cls(
            MemoryClient.from_settings(settings),
            open_backend=partial(open_shared_backend, settings, policy),
            policy=policy,
            **stack_parts(settings, policy, provider=provider),
        )

    @staticmethod
    def connect(url: str, *, key: str | None = None, timeout_seconds: float = 30.0) -> "RemoteMemory":
        """Return the memory behind `memtend serve`, with the same calls; this process needs its key and nothing else.

        ``timeout_seconds`` is that of one answer; nothing is connected yet. Raises MemoryInputError for what is no
        address.
        """
        from memcore.remote import RemoteMemory  # noqa: PLC0415  # engines in process do without httpx

        return RemoteMemory.connect(url, key=key, timeout_seconds=timeout_seconds)

    @property
    def client(self) -> MemoryClient:
        """The client beneath, for every other job: maintain_now, undo, end_session, record_experience, status, ..."""
        return self._client

    def store(self, agent_id: str, content: str, *, wait: bool = False, **fields: Unpack[StoreFields]) -> StoreReceipt:
        """Send one memory to the workers, and return once the broker holds it; with ``wait`` once it can be found.

        The text, up to 64 KiB, is kept exactly as given; the same text of the same agent again writes nothing twice.

        Raises:
            MemoryInputError: a field breaks a limit; the message names it, and nothing was sent.
            MemoryConnectionError: the broker cannot be reached; store it again.
            MemoryQueueFullError: the queue holds as much as it may; nothing was sent.
            MemoryDiskFullError: the broker's disk has too little room; nothing was sent.
            MemoryStoreError, TimeoutError: with ``wait``, no worker wrote it, or none within 30 seconds; a job that is
                late is done still.
        """
        request, scope = split_fields(fields)
        with named_as_given():
            receipt = self._client.store(agent_id, {**request, "content": content}, scope=scope)
        return self._awaited(receipt) if wait else receipt

    def store_many(
        self,
        agent_id: str,
        memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]],
        *,
        wait: bool = False,
        **fields: Unpack[StoreFields],
    ) -> StoreReceipt:
        """Send many memories of one agent in few jobs; all are checked before the first is sent.

        The fields describe those that are texts; memories that differ in more are MemoryStoreRequests, or mappings of
        such fields. Session, project and task are those of all.

        Raises:
            MemoryInputError: as for store; the message says which memory.
            MemoryConnectionError, MemoryQueueFullError, MemoryDiskFullError: as for store; some may have been sent, and
                sending all again writes nothing twice.
        """
        request, scope = split_fields(fields)
        with named_as_given():
            receipt = self._client.store_many(agent_id, with_fields(memories, request), scope=scope)
        return self._awaited(receipt) if wait else receipt

    search = blocking(Reads.search)
    ask = blocking(Reads.ask)
    prepare = blocking(Reads.prepare)
    load_turn = blocking(Reads.load_turn)
    tools = blocking(Reads.tools)
    call_tool = blocking(Reads.call_tool)
    mem0 = blocking(Reads.mem0)
    get = blocking(Reads.get)
    get_by_key = blocking(Reads.get_by_key)
    list = blocking(Reads.list)
    namespaces = blocking(Reads.namespaces)
    count = blocking(Reads.count)
    put = blocking(Reads.put)
    update = blocking(Reads.update)
    forget = blocking(Reads.forget)
    history = blocking(Reads.history)

    def ask_stream(self, agent_id: str, question: str, **fields: Unpack[AskFields]) -> Iterator[AskEvent]:
        """Answer as ``ask`` does, in parts: what was found, as soon as it is, then each sentence, then the whole.

        The parts are a FoundPassages, some AnswerSentences, and an Answer; the model's answer is checked whole, so its
        sentences come together. Raises as ``ask``, before the first part.
        """
        asked = checked_question(question, fields)

        async def found(reading: _Reading) -> "Finding":
            return await (await reading.reader.open()).find(agent_id, asked)

        async def answered(reading: _Reading) -> Answer:
            return await (await reading.reader.open()).answering.answer(finding)

        finding = self._call(found)

        def parts() -> Iterator[AskEvent]:
            yield finding.shown()
            yield from self._call(answered).parts()

        return parts()

    def set_recall(
        self, agent_id: str, is_on: bool, *, user_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Turn on or off that an agent is shown what is remembered of a person; nothing is deleted.

        Raises MemoryInputError and MemoryConnectionError as load_turn does.
        """
        required(self._conversation).set_recall(checked_owner(agent_id, user_id, session_id), is_on=is_on)

    def conversation_status(
        self, agent_id: str, *, user_id: str | None = None, session_id: str | None = None
    ) -> LayerCounts:
        """Return how many facts, sessions and rules an agent has of a person, and what waits; raises as set_recall."""
        return required(self._conversation).status(checked_owner(agent_id, user_id, session_id))

    def distill(
        self,
        agent_id: str,
        trace: ExecutionTrace | Mapping[str, Any],
        *,
        session_id: str | None = None,
        project_id: str | None = None,
    ) -> DistillReceipt | None:
        """Send how a task went, when it has ended; a memory, an experience and a trajectory come of it.

        An engine's task never fails for it: None, with a warning in the log, when it could not be sent. Raises
        MemoryInputError when a field breaks a limit; nothing was sent.
        """
        scope = {"session_id": session_id, "project_id": project_id}
        with named_as_given():
            return self._client.distill(agent_id, trace, scope=scope)

    def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """Report that an agent applied a skill or lesson, and how it went: ``success`` or ``failure``.

        None, with a warning in the log, when it could not be sent. The same task applies a skill once. Raises
        MemoryInputError when a field breaks a limit; nothing was sent.
        """
        return self._client.applied(agent_id, skill_id, outcome, task_id=task_id)

    def extract_turn(self, agent_id: str, **turn: Unpack[TurnFields]) -> TurnReceipt | None:
        """Send a turn of a conversation, after the reply; a language model draws from it what is worth keeping.

        None, with a warning in the log, when it could not be sent; sent again under its name, ``turn``, it counts once.
        Raises MemoryInputError when a field breaks a limit; nothing was sent.
        """
        receipt = self._client.extract_turn(agent_id, **turn)
        if receipt is not None and self._sessions is not None:
            self._sessions.turned(SessionName(agent_id, turn["session_id"], turn.get("user_id")))
        return receipt

    def end_conversation(
        self, agent_id: str, *, session_id: str, user_id: str | None = None, at: datetime | None = None
    ) -> JobReceipt | None:
        """Say that a session has ended, under the user of its turns; one that nobody ends does so by itself.

        None, with a warning in the log, when it could not be sent. Raises MemoryInputError when a field breaks a limit.
        """
        receipt = self._client.end_conversation(agent_id, session_id=session_id, user_id=user_id, at=at)
        if receipt is not None and self._sessions is not None:
            self._sessions.ended(SessionName(agent_id, session_id, user_id))
        return receipt

    def add(
        self,
        messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        agent_id: str,
        user_id: str | None = None,
        session_id: str | None = None,
        timeout_seconds: float = WAIT_SECONDS,
    ) -> AddResult:
        """Draw what is worth keeping from messages with ``role`` and ``content``, and say what became of it.

        A person's words up to an answer are one turn, sent as extract_turn does; this call waits until a model was
        asked about each. ``results`` has an event for each fact or rule: ``ADD``, ``UPDATE`` with what it replaced
        (``previous_memory``), or ``NOOP`` for what is known already; none for what waits for the end of its session.

        Raises:
            MemoryInputError: a message breaks a limit, or neither user nor session is given; nothing was sent.
            MemoryConnectionError: a turn could not be sent, or the ledger cannot be reached.
            TimeoutError: no model answered in time; the turns are kept, and what comes of them is found later.
        """
        conversation = required(self._conversation)
        return conversation.add(
            self._client,
            messages,
            owner=checked_owner(agent_id, user_id, session_id),
            user_id=user_id,
            session_id=session_id,
            timeout_seconds=timeout_seconds,
        )

    def in_mode(self, mode: MemoryMode | str) -> "Memory | IncognitoMemory":
        """Return what keeps conversations in a mode: ``local``, ``synced`` or ``incognito``.

        Local and synced are this object. Incognito is another one, whose calls write to no disk and no broker; it asks
        the model of this process's environment itself, and forgets all when it is closed.

        Raises:
            MemoryInputError: no mode has this name.
            MemoryConfigError: a library is missing, or this memory was made without settings.
        """
        if checked_mode(mode) is not MemoryMode.INCOGNITO:
            return self
        if self._open_incognito is None:
            raise MemoryConfigError("conversation: this memory was made without settings: make it with from_settings")
        return self._open_incognito()

    def wait(self, jobs: Jobs, *, timeout_seconds: float = WAIT_SECONDS) -> tuple[JobStatus, ...]:
        """Wait until jobs have ended, and return what became of them: look at ``state`` and ``reason``.

        Raises:
            TimeoutError: some had not ended in time.
            MemoryConnectionError: outcomes cannot be read.
        """
        return tuple(self._client.wait(job_ids_of(jobs), timeout_seconds=timeout_seconds))

    def _awaited(self, receipt: StoreReceipt) -> StoreReceipt:
        return receipt.written(self.wait(receipt))

    def close(self) -> None:
        """Wait for reads that are running, send what was counted, close the connections; a call opens them again.

        It ends the sessions of which turns were sent, within five seconds; those that are left end once they idle.
        """
        with self._changed:
            reading, self._reading = self._reading, None
            if reading is not None:
                self._changed.wait_for(lambda: reading.calls == 0)
        with ExitStack() as closing:
            closing.callback(self._client.close)
            closing.callback(self._end_conversations)
            if self._conversation is not None:
                closing.callback(self._conversation.close)
            if reading is not None:
                closing.callback(reading.loop.close)
                reading.loop.run(reading.reader.close())

    def _end_conversations(self) -> None:
        if self._sessions is not None:
            self._sessions.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _call(self, call: Callable[[_Reading], Coroutine[Any, Any, Result]]) -> Result:
        # Counted, so that close takes no loop from under a call: its caller would wait for an answer forever.
        with self._changed:
            if self._reading is None:
                reader = Reader(
                    self._client,
                    self._open_backend,
                    self._policy,
                    open_memories=self._open_memories,
                    open_model=self._open_model,
                )
                reads = Reads(reader, conversation=self._conversation, open_mem0=self._open_mem0)
                self._reading = _Reading(reader=reader, reads=reads, loop=LoopThread("memtend-memory"))
            reading = self._reading
            reading.calls += 1
        try:
            return reading.loop.run(call(reading))
        finally:
            with self._changed:
                reading.calls -= 1
                self._changed.notify_all()


class StackParts(TypedDict):
    """What a memory of a stack has beside its client and its backend."""

    conversation: ConversationReader
    open_incognito: "Callable[[], IncognitoMemory]"
    open_mem0: "Mem0Opener"
    open_memories: "OpenMemories"
    open_model: "OpenModel"


def stack_parts(settings: "Settings", policy: "Policy", *, provider: "CompletionProvider | None" = None) -> StackParts:
    """Return the parts of the memory of the stack that the settings describe; nothing is opened."""

    def open_incognito() -> "IncognitoMemory":
        with naming_extras():
            from memcore.memory.incognito import IncognitoMemory  # noqa: PLC0415  # its libraries are an extra's

        return IncognitoMemory.from_settings(settings, policy)

    return {
        "conversation": ConversationReader.from_settings(settings, policy),
        "open_incognito": open_incognito,
        "open_mem0": partial(open_configured_mem0, settings),
        "open_memories": opening_memories(settings, policy),
        "open_model": opening_model(settings, policy, provider=provider),
    }
