"""What every backend can do: the reference's MemoryBackend, and the batch protocol beside it.

All implementations pass one contract suite (tests/contract/backends). Everything here takes an agent id or a
``Where`` that holds one, so no call can reach another agent's memories.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memcore.backends.record import MemoryRecord, Page
from memcore.backends.where import Scope, Where
from memcore.models import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery, MemoryStoreRequest

#: Most records a scan returns in one page; a page with vectors of 256 entries stays near one megabyte.
MAX_PAGE = 256


@runtime_checkable
class MemoryBackend(Protocol):
    """Store, find, count and delete one agent's memories.

    Every call but ``connect``, ``disconnect`` and ``health_check`` raises MemoryConnectionError before ``connect``.
    """

    async def connect(self) -> None:
        """Open the connection; a second call does nothing. Raises MemoryConnectionError."""
        ...

    async def disconnect(self) -> None:
        """Close the connection; a second call does nothing."""
        ...

    async def health_check(self) -> bool:
        """Return whether the backend answers; connection trouble is logged as a warning, never raised."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether connect has succeeded and disconnect has not been called since."""
        ...

    @property
    def backend_name(self) -> str:
        """The name that the configuration uses."""
        ...

    async def store(self, agent_id: str, request: MemoryStoreRequest) -> str:
        """Store one memory and return its id. Raises MemoryConnectionError, MemoryStoreError."""
        ...

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        """Return what matches: best first with a text, newest first without. Raises MemoryRetrievalError."""
        ...

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return the memory, or None when this agent has none with that id. Raises MemoryRetrievalError."""
        ...

    async def delete(self, agent_id: str, memory_id: str) -> bool:
        """Delete the memory; False when this agent has none with that id. Raises MemoryStoreError.

        A backend that was given a ledger journals it first: it stays deleted, and can be undone.
        """
        ...

    async def count(self, agent_id: str, *, category: MemoryCategory | None = None) -> int:
        """Return the exact number of memories. Raises MemoryRetrievalError."""
        ...


@runtime_checkable
class MemoryCapabilities(Protocol):
    """What a backend supports, to ask before an operation is tried."""

    @property
    def supported_categories(self) -> frozenset[MemoryCategory]:
        """Categories it stores."""
        ...

    @property
    def supports_graph(self) -> bool:
        """Whether graph memory exists."""
        ...

    @property
    def supports_temporal(self) -> bool:
        """Whether since and until are honoured."""
        ...

    @property
    def supports_vector_search(self) -> bool:
        """Whether text queries search by meaning."""
        ...

    @property
    def supports_shared_access(self) -> bool:
        """Whether agents can share memories."""
        ...

    @property
    def max_memories_per_agent(self) -> int | None:
        """The most it holds for one agent; None for no limit."""
        ...


@runtime_checkable
class BatchBackend(Protocol):
    """What workers need: many memories a call, filters and order in the store, and marks for safe removal."""

    @property
    def vector_space(self) -> str | None:
        """What its vectors mean: the embedder and the form of the texts. None when it takes them as they are given.

        Vectors of another space are strangers in this store: a memory that comes back without any is embedded anew.
        """
        ...

    async def store_many(self, records: Sequence[MemoryRecord]) -> None:
        """Write every record whose id is not there yet; leave the others untouched (insert-only).

        Readers find the new ones when this returns. Records of several agents may be mixed. A record without
        vectors is embedded; one with vectors is written with exactly those. Raises MemoryStoreError.
        """
        ...

    async def get_many(
        self, agent_id: str, ids: Sequence[str], *, with_vectors: bool = False
    ) -> tuple[MemoryRecord, ...]:
        """Return those of the ids that this agent has, in the order asked for. Raises MemoryRetrievalError."""
        ...

    async def delete_many(self, agent_id: str, ids: Sequence[str]) -> int:
        """Delete those of the ids that this agent has and return how many. Raises MemoryStoreError."""
        ...

    async def delete_where(self, where: Where) -> int:
        """Delete what matches and return how many. Raises MemoryStoreError."""
        ...

    async def count_where(self, where: Where) -> int:
        """Return the exact number of matches. Raises MemoryRetrievalError."""
        ...

    async def scopes(self, where: Where, scope: Scope) -> frozenset[str]:
        """Return every session, project or task that a match was stored in. Raises MemoryRetrievalError."""
        ...

    async def scan(
        self, where: Where, *, cursor: str | None = None, limit: int = MAX_PAGE, with_vectors: bool = False
    ) -> Page:
        """Return the next page of matches, oldest first, ties by id; ``Page.cursor`` is None after the last.

        Each match that is there from first to last page is seen exactly once. Raises MemoryRetrievalError.
        """
        ...

    async def set_metadata_many(self, agent_id: str, ids: Sequence[str], metadata: MemoryMetadata) -> int:
        """Replace source, confidence and tags of these memories without embedding again; return how many."""
        ...

    async def claim(self, where: Where, token: str) -> int:
        """Mark what matches with the token, overwriting any older mark; return how many carry it now."""
        ...

    async def unclaim(self, agent_id: str) -> None:
        """Take every mark off this agent's memories, so that whoever still holds an old token deletes nothing."""
        ...
