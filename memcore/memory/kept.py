"""What Memory and AsyncMemory do with single memories: list, change, forget, and the history of each."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from memcore.memory.fields import StoreFields, named_as_given, split_fields
from memcore.models.base import naming_fields
from memcore.models.memory import MemoryEntry, MemoryStoreRequest

if TYPE_CHECKING:
    from memcore.memory.reader import Opened
    from memcore.models.memory_changes import ForgetReceipt, ListFields, MemoryPage, MemoryVersion, UpdateFields

Result = TypeVar("Result")


def built(content: str, fields: "StoreFields") -> tuple[MemoryStoreRequest, dict[str, Any]]:
    """Return the request and the scope that fields of a store describe. Raises MemoryInputError."""
    request, scope = split_fields(fields)
    with named_as_given(), naming_fields():
        return MemoryStoreRequest.model_validate({**request, "content": content}), scope


class KeptMemories:
    """The calls of Memory on single memories.

    All raise MemoryInputError naming a wrong field, MemoryConnectionError where store or ledger cannot be reached, and
    MemoryConfigError where a library for reading is missing.
    """

    @abstractmethod
    def _read(self, call: "Callable[[Opened], Coroutine[Any, Any, Result]]") -> Result:
        """Run a read in the reading loop."""

    def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return one memory, None when the agent has none; the id of an old version leads to the one of today."""
        return self._read(lambda opened: opened.get(agent_id, memory_id))

    def get_by_key(self, agent_id: str, key: str, *, namespace: str = "default") -> MemoryEntry | None:
        """Return the memory with this key of yours in a namespace, None when there is none."""
        return self._read(lambda opened: opened.kept.get_by_key(agent_id, key, namespace=namespace))

    def list(
        self, agent_id: str, *, limit: int = 100, cursor: str | None = None, **filters: "Unpack[ListFields]"
    ) -> "MemoryPage":
        """Return 1 to 256 memories that meet all filters, oldest first; ``cursor`` of a page gives the next one."""
        return self._read(lambda opened: opened.kept.list(agent_id, limit=limit, cursor=cursor, **filters))

    def namespaces(self, agent_id: str) -> tuple[str, ...]:
        """Return the namespaces in which the agent has memories."""
        return self._read(lambda opened: opened.kept.namespaces(agent_id))

    def count(self, agent_id: str, *, category: str | None = None) -> int:
        """Return how many memories the agent has."""
        return self._read(lambda opened: opened.kept.count(agent_id, category=category))

    def put(self, agent_id: str, content: str, *, only_new: bool = False, **fields: Unpack[StoreFields]) -> MemoryEntry:
        """Write one memory now, without the queue, and return it as it is found from here on.

        ``store`` goes on while the store server is down; this call raises MemoryConnectionError then. With ``only_new``
        it raises MemoryConflictError where the key has a memory: of several at one moment, one is written.
        """
        request, scope = built(content, fields)
        return self._read(lambda opened: opened.kept.put(agent_id, request, scope=scope, only_new=only_new))

    def update(
        self, agent_id: str, memory_id: str, *, expected: str | None = None, **fields: "Unpack[UpdateFields]"
    ) -> MemoryEntry:
        """Change a memory at once, and return its new version; the version before is journaled, and can be undone.

        What is left out stays as it is. ``expected`` is the id of the version to change, ``memory_id`` itself where it
        is left out, ``*`` any. Raises MemoryConflictError where another version is there: read it, and try again.
        Raises MemoryNotFoundError when the agent has no such memory.
        """
        with named_as_given():
            return self._read(lambda opened: opened.kept.update(agent_id, memory_id, expected=expected, **fields))

    def forget(
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
        return self._read(
            lambda opened: opened.kept.forget(agent_id, memory_ids, everything=everything, expected=expected, **filters)
        )

    def history(self, agent_id: str, memory_id: str) -> "tuple[MemoryVersion, ...]":
        """Return what became of a memory, oldest first; raises MemoryNotFoundError when the agent never had it."""
        return self._read(lambda opened: opened.kept.history(agent_id, memory_id))


class AsyncKeptMemories:
    """The same calls of AsyncMemory."""

    @abstractmethod
    async def _open(self) -> "Opened":
        """Return what reads are made with."""

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """See KeptMemories.get."""
        return await (await self._open()).get(agent_id, memory_id)

    async def get_by_key(self, agent_id: str, key: str, *, namespace: str = "default") -> MemoryEntry | None:
        """See KeptMemories.get_by_key."""
        return await (await self._open()).kept.get_by_key(agent_id, key, namespace=namespace)

    async def list(
        self, agent_id: str, *, limit: int = 100, cursor: str | None = None, **filters: "Unpack[ListFields]"
    ) -> "MemoryPage":
        """See KeptMemories.list."""
        return await (await self._open()).kept.list(agent_id, limit=limit, cursor=cursor, **filters)

    async def namespaces(self, agent_id: str) -> tuple[str, ...]:
        """See KeptMemories.namespaces."""
        return await (await self._open()).kept.namespaces(agent_id)

    async def count(self, agent_id: str, *, category: str | None = None) -> int:
        """See KeptMemories.count."""
        return await (await self._open()).kept.count(agent_id, category=category)

    async def put(
        self, agent_id: str, content: str, *, only_new: bool = False, **fields: Unpack[StoreFields]
    ) -> MemoryEntry:
        """See KeptMemories.put."""
        request, scope = built(content, fields)
        return await (await self._open()).kept.put(agent_id, request, scope=scope, only_new=only_new)

    async def update(
        self, agent_id: str, memory_id: str, *, expected: str | None = None, **fields: "Unpack[UpdateFields]"
    ) -> MemoryEntry:
        """See KeptMemories.update."""
        with named_as_given():
            return await (await self._open()).kept.update(agent_id, memory_id, expected=expected, **fields)

    async def forget(
        self,
        agent_id: str,
        memory_ids: str | Collection[str] | None = None,
        *,
        everything: bool = False,
        expected: str | None = None,
        **filters: "Unpack[ListFields]",
    ) -> "ForgetReceipt":
        """See KeptMemories.forget."""
        kept = (await self._open()).kept
        return await kept.forget(agent_id, memory_ids, everything=everything, expected=expected, **filters)

    async def history(self, agent_id: str, memory_id: str) -> "tuple[MemoryVersion, ...]":
        """See KeptMemories.history."""
        return await (await self._open()).kept.history(agent_id, memory_id)
