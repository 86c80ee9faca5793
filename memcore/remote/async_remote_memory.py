"""``AsyncRemoteMemory``: RemoteMemory for engines that run an event loop."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, Self, Unpack

from memcore.client.envelopes import TurnFields
from memcore.client.results import (
    POLL_SECONDS,
    AppliedReceipt,
    DistillReceipt,
    JobReceipt,
    JobStatus,
    PendingJobs,
    StoreReceipt,
    TurnReceipt,
)
from memcore.errors import (
    MemoryCapabilityError,
    MemoryConflictError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
    MemoryStoreError,
)
from memcore.jobs import ApplicationOutcome
from memcore.memory.conversation import LoadFields, checked_mode
from memcore.memory.fields import WAIT_SECONDS, AskFields, Jobs, SearchFields, StoreFields, job_ids_of
from memcore.models.asking import Answer, AskEvent
from memcore.models.conversation import MemoryMode
from memcore.models.execution import ExecutionTrace
from memcore.models.memory import MemoryEntry, MemoryStoreRequest
from memcore.models.memory_changes import ForgetReceipt, ListFields, MemoryPage, UpdateFields
from memcore.remote import calls
from memcore.remote.calls import LoadedTurn
from memcore.remote.connection import AsyncConnection
from memcore.remote.requests import TIMEOUT_SECONDS, Address, Call, Result
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)

#: What only a process with the broker's and the ledger's addresses can do, and what to use instead.
NOT_REMOTE = {
    "client": "jobs have endpoints of their own over HTTP: POST /v1/runs/RUN/undo undoes a run, and /docs shows all",
    "add": "what became of messages is not told over HTTP: send turns with extract_turn, and load_turn finds it",
    "mem0": "a mem0.Memory opens the store itself: use mem0's MemoryClient with this server's address and key",
    "incognito": "a conversation that nothing writes down cannot leave its process: use Memory.from_environment()",
}


def not_remote(name: str) -> MemoryCapabilityError:
    """Return the error of a call that HTTP has no request for."""
    return MemoryCapabilityError(f"{name}: {NOT_REMOTE[name]}")


#: Looks for the memory of a later writer of the same key, before a put counts as failed: for half a minute. That one
#: may wait for its worker, and its job be tried again after 2, 4 and 8 seconds.
LOOKS = 600

Given = ParamSpec("Given")

#: What an engine sends without waiting for it.
Sent = Literal["trace", "turn", "end", "application"]


def _report_lost(what: Sent, error: MemoryError, agent_id: str) -> None:
    """Log that something was not sent, and the engine goes on; the error's class alone."""
    _log.warning(Event.MEMORY_REMOTE_LOST, extra={"what": what, "agent_id": agent_id, "error": type(error).__name__})


def sent(
    make: Callable[Given, Call[Result]],
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]]:
    """Return a call of AsyncRemoteMemory that sends this request."""

    @wraps(make)
    async def run(self: "AsyncRemoteMemory", /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await self._send(make(*args, **kwargs))  # a method of AsyncRemoteMemory

    own = signature(make)
    bound = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    run.__doc__ = f"See Memory.{make.__name__}."
    run.__signature__ = own.replace(parameters=[bound, *own.parameters.values()])  # type: ignore[attr-defined]  # help() asks it
    return run


class AsyncRemoteMemory:
    """Store, find and prepare the memories of agents through a server, from coroutines of one event loop.

    ::

        async with AsyncMemory.connect("http://127.0.0.1:8321", key="mt_...") as memory:
            await memory.store("oncall", "The payment queue pages at 500 messages.")
            found = await memory.search("oncall", "when does payments page?", limit=3)

    Every method does what that of RemoteMemory does.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        *,
        new_key: Callable[[], str] = calls.new_key,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._new_key = new_key
        self._monotonic = monotonic

    @classmethod
    def connect(cls, url: str, *, key: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> Self:
        """Return the memory behind a server; see RemoteMemory.connect."""
        return cls(AsyncConnection(Address(url=url, key=key, timeout_seconds=timeout_seconds)))

    @property
    def client(self) -> NoReturn:
        """Raise MemoryCapabilityError: there is no client beneath."""
        raise not_remote("client")

    namespaces = sent(calls.namespaces)
    count = sent(calls.count)
    history = sent(calls.history)
    prepare = sent(calls.prepare)
    tools = sent(calls.tools)
    call_tool = sent(calls.call_tool)
    set_recall = sent(calls.set_recall)
    conversation_status = sent(calls.conversation_status)

    async def store(
        self, agent_id: str, content: str, *, wait: bool = False, **fields: Unpack[StoreFields]
    ) -> StoreReceipt:
        """See Memory.store."""
        receipt = await self._send(calls.store(agent_id, content, fields, key=self._new_key()))
        return await self._awaited(receipt) if wait else receipt

    async def store_many(
        self,
        agent_id: str,
        memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]],
        *,
        wait: bool = False,
        **fields: Unpack[StoreFields],
    ) -> StoreReceipt:
        """See Memory.store_many."""
        requests = calls.store_many(agent_id, memories, fields, key=self._new_key())
        receipt = calls.joined([await self._send(each) for each in requests])
        return await self._awaited(receipt) if wait else receipt

    async def search(
        self, agent_id: str, text: str | None = None, **filters: Unpack[SearchFields]
    ) -> tuple[MemoryEntry, ...]:
        """See Memory.search."""
        return await self._send(calls.search(agent_id, text, filters))

    async def ask(self, agent_id: str, question: str, **fields: Unpack[AskFields]) -> Answer:
        """See Memory.ask."""
        return await self._send(calls.ask(agent_id, question, fields))

    async def ask_stream(self, agent_id: str, question: str, **fields: Unpack[AskFields]) -> AsyncIterator[AskEvent]:
        """See Memory.ask_stream; the parts are read to their end. MemoryConnectionError where they break off."""
        events = await self._connection.events(calls.ask_stream(agent_id, question, fields))
        return (part async for name, given in events if (part := calls.part_of(name, given)) is not None)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """See Memory.get."""
        call = calls.get(agent_id, memory_id)
        return None if call is None else await self._send(call)

    async def get_by_key(self, agent_id: str, key: str, *, namespace: str = "default") -> MemoryEntry | None:
        """See Memory.get_by_key."""
        page = await self.list(agent_id, keys=[key], namespaces=[namespace])
        return page.entries[-1] if page.entries else None

    async def list(
        self, agent_id: str, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[ListFields]
    ) -> MemoryPage:
        """See Memory.list."""
        call = calls.list_(agent_id, limit=limit, cursor=cursor, filters=filters)
        return MemoryPage(entries=(), cursor=None) if call is None else await self._send(call)

    async def put(
        self, agent_id: str, content: str, *, only_new: bool = False, **fields: Unpack[StoreFields]
    ) -> MemoryEntry:
        """Store a memory, wait until it can be found, and return it as it is found from here on."""
        call = calls.store(agent_id, content, fields, key=self._new_key(), only_new=only_new)
        for place, each in enumerate(fields.get("supersedes", ())):
            if await self.get(agent_id, each) is None:
                raise MemoryInputError(f"supersedes.{place}", "names no memory of this agent")
        receipt = await self._awaited(await self._send(call))
        key, namespace = fields.get("key"), fields.get("namespace", "default")
        found = await self.get(agent_id, receipt.memory_ids[0])
        for _ in range(LOOKS):
            if found is not None or key is None or only_new:
                break
            # A later version of the key took its place, or is on its way.
            await self._connection.sleep(POLL_SECONDS)
            found = await self.get_by_key(agent_id, key, namespace=namespace)
        return _require_entry(found, only_new=only_new)

    async def update(
        self, agent_id: str, memory_id: str, *, expected: str | None = None, **fields: Unpack[UpdateFields]
    ) -> MemoryEntry:
        """See Memory.update."""
        return await self._send(calls.update(agent_id, memory_id, fields, expected=expected))

    async def forget(
        self,
        agent_id: str,
        memory_ids: str | Collection[str] | None = None,
        *,
        everything: bool = False,
        expected: str | None = None,
        **filters: Unpack[ListFields],
    ) -> ForgetReceipt:
        """See Memory.forget."""
        key = self._new_key()
        call = calls.forget(agent_id, memory_ids, everything=everything, expected=expected, filters=filters, key=key)
        return await self._send(call)

    async def load_turn(self, agent_id: str, text: str, **about: Unpack[LoadFields]) -> LoadedTurn:
        """Return what Memory.load_turn does, as ``messages()`` for a prompt, without the facts one by one."""
        return await self._send(calls.load_turn(agent_id, text, **about))

    async def distill(
        self,
        agent_id: str,
        trace: ExecutionTrace | Mapping[str, Any],
        *,
        session_id: str | None = None,
        project_id: str | None = None,
    ) -> DistillReceipt | None:
        """See Memory.distill."""
        scope = {"session_id": session_id, "project_id": project_id}
        call = calls.distill(agent_id, trace, scope=scope, key=self._new_key())
        return await self._unless_lost(call, "trace", agent_id)

    async def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """See Memory.applied."""
        call = calls.applied(agent_id, skill_id, outcome, task_id=task_id, key=self._new_key())
        return await self._unless_lost(call, "application", agent_id)

    async def extract_turn(self, agent_id: str, **turn: Unpack[TurnFields]) -> TurnReceipt | None:
        """See Memory.extract_turn."""
        return await self._unless_lost(calls.extract_turn(agent_id, key=self._new_key(), **turn), "turn", agent_id)

    async def end_conversation(
        self, agent_id: str, *, session_id: str, user_id: str | None = None, at: datetime | None = None
    ) -> JobReceipt | None:
        """See Memory.end_conversation."""
        call = calls.end_conversation(agent_id, session_id=session_id, user_id=user_id, at=at, key=self._new_key())
        return await self._unless_lost(call, "end", agent_id)

    async def add(
        self,
        messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        agent_id: str,
        user_id: str | None = None,
        session_id: str | None = None,
        timeout_seconds: float = WAIT_SECONDS,
    ) -> NoReturn:
        """Raise MemoryCapabilityError: HTTP does not say what became of messages."""
        raise not_remote("add")

    async def in_mode(self, mode: MemoryMode | str) -> Self:
        """Return this object for ``local`` and ``synced``. Raises MemoryCapabilityError for ``incognito``."""
        if checked_mode(mode) is MemoryMode.INCOGNITO:
            raise not_remote("incognito")
        return self

    async def mem0(self, agent_id: str) -> NoReturn:
        """Raise MemoryCapabilityError: a mem0.Memory opens the store itself."""
        raise not_remote("mem0")

    async def wait(self, jobs: Jobs, *, timeout_seconds: float = WAIT_SECONDS) -> tuple[JobStatus, ...]:
        """See Memory.wait; what is waited for are receipts of this object, or the ids of operations."""
        pending = PendingJobs(job_ids_of(jobs), timeout_seconds=timeout_seconds, clock=self._monotonic)
        ended = list[JobStatus]()
        while pending.waiting:
            statuses = [await self._send(calls.operation(each)) for each in pending.waiting]
            ended += pending.mark_finished([each for each in statuses if each.is_finished])
            if pending.waiting:
                await self._connection.sleep(pending.poll_delay())
        return tuple(ended)

    async def close(self) -> None:
        """Close the connections; a call opens them again."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _send(self, call: Call[Result]) -> Result:
        return await self._connection.send(call)

    async def _unless_lost(self, call: Call[Result], what: Sent, agent_id: str) -> Result | None:
        """Return what was sent; None, with a warning, when it could not be: no task of an engine fails for it."""
        try:
            return await self._send(call)
        except MemoryInputError:
            raise
        except MemoryError as error:
            _report_lost(what, error, agent_id)
            return None

    async def _awaited(self, receipt: StoreReceipt) -> StoreReceipt:
        return receipt.written(await self.wait(receipt))


def _require_entry(found: MemoryEntry | None, *, only_new: bool) -> MemoryEntry:
    """Return what was stored; MemoryStoreError when it is gone already, MemoryConflictError where it had to be new."""
    if found is None and only_new:
        raise MemoryConflictError("key: another writer was first")
    if found is None:
        raise MemoryStoreError("the memory was removed by somebody else at the same moment")
    return found
