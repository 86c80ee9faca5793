"""``RemoteMemory``: Memory through ``memtend serve``, for engines that hold a key and nothing else."""

import time
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar, Unpack

from memcore.memory.conversation import checked_mode
from memcore.memory.fields import AskFields
from memcore.models.asking import AskEvent
from memcore.models.conversation import MemoryMode
from memcore.remote import calls
from memcore.remote.async_remote_memory import AsyncRemoteMemory, not_remote
from memcore.remote.connection import BlockingConnection, Connection
from memcore.remote.requests import TIMEOUT_SECONDS, Address

Given = ParamSpec("Given")
Result = TypeVar("Result")


def blocking(
    call: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]:
    """Return a call of AsyncRemoteMemory as one that blocks."""

    @wraps(call)
    def run(self: "RemoteMemory", /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return _result(call(self._awaited, *args, **kwargs))  # a method of RemoteMemory

    return run


def _result(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine over a BlockingConnection, which waits for no event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise AssertionError("a blocking call waits for an event loop")


class RemoteMemory:
    """Store, find and prepare the memories of agents through a server. Thread-safe; use it in a ``with`` block.

    ::

        with Memory.connect("http://127.0.0.1:8321", key="mt_...") as memory:
            memory.store("oncall", "The payment queue pages at 500 messages.")
            found = memory.search("oncall", "when does payments page?", limit=3)

    Every method takes and does what that of Memory does. Connections are kept open; requests that do no harm twice are
    sent again, with pauses, while the server is busy or away; a store has an Idempotency-Key, so it is done once.

    Beside the errors of Memory, every call raises RemoteRefusedError, where the key is not for this.

    Args:
        connection: carries the requests; closed with this object.
        new_key: names a request, so that the server knows it when it comes again.
        monotonic: seconds that only grow.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        new_key: Callable[[], str] = calls.new_key,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._awaited = AsyncRemoteMemory(BlockingConnection(connection), new_key=new_key, monotonic=monotonic)

    @classmethod
    def connect(cls, url: str, *, key: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> Self:
        """Return the memory behind a server; nothing is connected yet. Raises MemoryInputError for a wrong address."""
        return cls(Connection(Address(url=url, key=key, timeout_seconds=timeout_seconds)))

    @property
    def client(self) -> NoReturn:
        """Raise MemoryCapabilityError: there is no client beneath."""
        raise not_remote("client")

    store = blocking(AsyncRemoteMemory.store)
    store_many = blocking(AsyncRemoteMemory.store_many)
    search = blocking(AsyncRemoteMemory.search)
    ask = blocking(AsyncRemoteMemory.ask)
    get = blocking(AsyncRemoteMemory.get)
    get_by_key = blocking(AsyncRemoteMemory.get_by_key)
    list = blocking(AsyncRemoteMemory.list)
    namespaces = blocking(AsyncRemoteMemory.namespaces)
    count = blocking(AsyncRemoteMemory.count)
    put = blocking(AsyncRemoteMemory.put)
    update = blocking(AsyncRemoteMemory.update)
    forget = blocking(AsyncRemoteMemory.forget)
    history = blocking(AsyncRemoteMemory.history)
    prepare = blocking(AsyncRemoteMemory.prepare)
    tools = blocking(AsyncRemoteMemory.tools)
    call_tool = blocking(AsyncRemoteMemory.call_tool)
    load_turn = blocking(AsyncRemoteMemory.load_turn)
    set_recall = blocking(AsyncRemoteMemory.set_recall)
    conversation_status = blocking(AsyncRemoteMemory.conversation_status)
    distill = blocking(AsyncRemoteMemory.distill)
    applied = blocking(AsyncRemoteMemory.applied)
    extract_turn = blocking(AsyncRemoteMemory.extract_turn)
    end_conversation = blocking(AsyncRemoteMemory.end_conversation)
    add = blocking(AsyncRemoteMemory.add)
    mem0 = blocking(AsyncRemoteMemory.mem0)
    wait = blocking(AsyncRemoteMemory.wait)
    close = blocking(AsyncRemoteMemory.close)

    def ask_stream(self, agent_id: str, question: str, **fields: Unpack[AskFields]) -> Iterator[AskEvent]:
        """See Memory.ask_stream; the parts are read to their end. MemoryConnectionError where they break off."""
        events = self._connection.events(calls.ask_stream(agent_id, question, fields))
        return (part for name, given in events if (part := calls.part_of(name, given)) is not None)

    def in_mode(self, mode: MemoryMode | str) -> Self:
        """Return this object for ``local`` and ``synced``. Raises MemoryCapabilityError for ``incognito``."""
        if checked_mode(mode) is MemoryMode.INCOGNITO:
            raise not_remote("incognito")
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
