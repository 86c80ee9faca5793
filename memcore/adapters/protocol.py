"""What adapters need of a memory, and one sentence where a framework is missing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from memcore.errors import MemoryConfigError, MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name

if TYPE_CHECKING:
    from memcore.models.memory import MemoryEntry
    from memcore.models.memory_changes import ForgetReceipt


class PageLike(Protocol):
    """A page of a list of memories; ``cursor`` leads to the next, None ends the list."""

    @property
    def entries(self) -> "Sequence[MemoryEntry]":
        """The memories of this page."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where the next page begins."""
        ...


class ToolLike(Protocol):
    """A tool for an agent's model; ``parameters`` is a JSON schema."""

    @property
    def name(self) -> str:
        """What the model calls it by."""
        ...

    @property
    def description(self) -> str:
        """What it does, and when to call it."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments."""
        ...


class MemoryLike(Protocol):
    """The calls of ``Memory`` that adapters use; ``Memory`` says what each takes, does and raises."""

    @property
    def put(self) -> "Callable[..., MemoryEntry]":
        """Write a memory without the queue; with ``only_new`` where its key has none."""
        ...

    @property
    def store_many(self) -> Callable[..., object]:
        """Store memories, with ``wait`` until they can be found."""
        ...

    @property
    def search(self) -> "Callable[..., Sequence[MemoryEntry]]":
        """Find memories by meaning and by words, best first."""
        ...

    @property
    def get_by_key(self) -> "Callable[..., MemoryEntry | None]":
        """Return the memory of a key."""
        ...

    @property
    def list(self) -> Callable[..., PageLike]:
        """Return a page of memories, oldest first."""
        ...

    @property
    def namespaces(self) -> Callable[[str], Sequence[str]]:
        """Return the namespaces that have memories."""
        ...

    @property
    def update(self) -> "Callable[..., MemoryEntry]":
        """Change fields of the version that is named. Raises MemoryConflictError where another one is there."""
        ...

    @property
    def forget(self) -> "Callable[..., ForgetReceipt]":
        """Take memories away; the run can be undone."""
        ...


class ToolMemory(Protocol):
    """The calls of ``Memory`` that give an agent its tools."""

    @property
    def tools(self) -> Callable[..., Sequence[ToolLike]]:
        """Return the tools of an agent; with ``writes`` those too that change memories."""
        ...

    @property
    def call_tool(self) -> Callable[..., str]:
        """Answer a call of a tool; what goes wrong is an answer that begins with ``Error:``."""
        ...


def called(memory: ToolMemory, agent_id: str, name: str, arguments: Mapping[str, Any], *, writes: bool) -> str:
    """Return the answer to a call of a tool: an agent goes on without memory, but not without a configuration."""
    try:
        return memory.call_tool(agent_id, name, arguments, writes=writes)
    except MemoryConfigError:
        raise
    except MemoryInputError as error:
        return f"Error: {error}"
    except MemoryError as error:
        return f"Error: memory cannot be used now ({type(error).__name__})."


#: Most memories of a page of a list.
PAGE = 256


def listed(
    memory: MemoryLike, agent_id: str, *, attributes: Mapping[str, Any], page: int = PAGE
) -> "Iterator[MemoryEntry]":
    """Yield the memories with these attributes, oldest first; pages are read as they are needed."""
    cursor: str | None = None
    while True:
        found = memory.list(agent_id, attributes=attributes, limit=page, cursor=cursor)
        yield from found.entries
        if (cursor := found.cursor) is None:
            return


#: Most ids or keys of one call that takes memories away: a server takes no more.
_AWAY = 1_000


def forget(memory: MemoryLike, agent_id: str, memory_ids: Sequence[str]) -> frozenset[str]:
    """Take memories away, in as few runs as can be, and return those that no other caller took."""
    parts = [memory_ids[start : start + _AWAY] for start in range(0, len(memory_ids), _AWAY)]
    return frozenset(gone for part in parts for gone in memory.forget(agent_id, part).forgotten)


#: Most memories that are written one by one: the queue takes longer for one, and less for several.
_ONE_BY_ONE = 2


def write(memory: MemoryLike, agent_id: str, memories: Sequence[Mapping[str, Any]], **scope: Any) -> None:
    """Write memories, each given by the fields of ``Memory.put``; all can be found when this returns."""
    if len(memories) <= _ONE_BY_ONE:
        for fields in memories:
            memory.put(agent_id, **fields, **scope)
        return
    requests = [{name: value for name, value in fields.items() if name != "source"} for fields in memories]
    for request, fields in zip(requests, memories, strict=True):
        request["metadata"] = {"source": fields.get("source")}
    memory.store_many(agent_id, requests, wait=True, **scope)


@contextmanager
def requiring(package: str) -> Iterator[None]:
    """Raise MemoryConfigError, which names the command to install it, where a framework is missing."""
    try:
        yield
    except ImportError as error:
        raise MemoryConfigError(f"{error.name or package} is not installed: pip install '{package}'") from error
