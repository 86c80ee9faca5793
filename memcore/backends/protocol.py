"""What every backend can do: the reference's MemoryBackend, and the batch protocol beside it.

All implementations pass one contract suite (tests/contract/backends). Everything here takes an agent id or a
``Where`` that holds one, so no call can reach another agent's memories.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from memcore.backends.fusion import RankedLists
from memcore.ids import Excluded
from memcore.models.memory import (
    RESERVED_PREFIX,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    MemoryQuery,
    MemoryStoreRequest,
)
from memcore.models.organization import OrgFact
from memcore.records import MemoryRecord, Page, Scope, Where

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

        Vectors of another space are outsiders in this store: a memory that comes back without any is embedded anew.
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


# Every publication and every retraction is a version of the whole, and each search sees one version: what was
# published
# up to it and not retracted by it. Private memories are no part of it, and no call of ``MemoryBackend`` shows any of
# it.


@runtime_checkable
class SharedKnowledgeStore(Protocol):
    """Publish, search and retract; a backend has it beside MemoryBackend.

    Ask ``supports_shared_access`` first: a backend may have the methods and nowhere to keep the log, and then each of
    them raises MemoryCapabilityError. The ``agent_id`` of an entry found is its publisher.
    """

    async def publish(self, agent_id: str, request: MemoryStoreRequest, *, once: bool = False) -> str:
        """Publish and return the id; every search that begins afterwards sees it, in any process.

        What the agent has published already, and neither retracted nor let expire, keeps its id and its first form.

        Args:
            agent_id: who publishes it.
            request: what.
            once: leave it at the first publication also after it was retracted or has expired, and return its last id.

        Raises MemoryInputError, MemoryConnectionError, MemoryStoreError, MemoryEmbeddingError. After a connection that
        failed the publication may appear later by itself; to publish it again is safe.
        """
        ...

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return what matches and has not expired: best first with a text, newest first without.

        Args:
            query: as for ``retrieve``.
            exclude_agent: leave out what this agent published, or any of these.
            version: as the knowledge was then; None for now.

        Raises MemoryConnectionError, MemoryRetrievalError; MemoryInputError for a version that is not there yet.
        """
        ...

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return the keyword hits alone, best first; without a text, or one without words, there are none."""
        ...

    async def retract(self, agent_id: str, memory_id: str) -> bool:
        """Take back what this agent published; no search that begins afterwards sees it, but those of older versions.

        False, and nothing changes, when this agent has published nothing under the id, or retracted it before.
        Raises MemoryConnectionError, MemoryStoreError; after a connection that failed it may still take effect.
        """
        ...

    async def shared_version(self) -> int:
        """Return the version that a search would see now; 0 before the first publication.

        Raises MemoryConnectionError, MemoryRetrievalError.
        """
        ...


# The truth lies in the ledger. What the store finds is a hint, by the id and version of a fact: whoever is to use it
# asks
# whether it still stands.

#: Under whose name facts stand in the shared knowledge; no agent can have it.
ORGANISATION = f"{RESERVED_PREFIX}organisation__"


@runtime_checkable
class FactStore(Protocol):
    """Show facts among the shared knowledge of a company, and read those that stand."""

    @property
    def dense_weight(self) -> float:
        """The share of meaning where it is added up with words."""
        ...

    async def show(self, record: MemoryRecord) -> None:
        """Show one version of a fact; one that was shown before, or hidden since, stays as it is.

        Args:
            record: by ORGANISATION, under an id that no other version has.

        Raises MemoryInputError, MemoryConnectionError, MemoryStoreError, MemoryEmbeddingError.
        """
        ...

    async def hide(self, memory_id: str) -> None:
        """Let no search that begins afterwards find a version; one that is not shown stays hidden.

        Raises MemoryConnectionError, MemoryStoreError.
        """
        ...

    async def rankings(self, query: MemoryQuery) -> RankedLists:
        """Return versions of facts that are near a text, and those with words of it; nothing but facts.

        They stand in ``dense`` and ``sparse``, each best first and with its cosine; the other lists are empty.

        Raises MemoryConnectionError, MemoryRetrievalError, MemoryEmbeddingError.
        """
        ...

    async def standing(self, fact_ids: Collection[str]) -> dict[str, tuple[int, OrgFact]]:
        """Return those of the facts that stand, each with its version. Raises as rankings does."""
        ...

    async def policies(self, *, offset: int) -> tuple[OrgFact, ...]:
        """Return a page of the core policies that were written and stand, oldest first. Raises as rankings does."""
        ...


@runtime_checkable
class FactStoreProvider(Protocol):
    """A backend that may have a store of facts."""

    @property
    def facts(self) -> FactStore | None:
        """The store of facts; None before connect, and where there is no ledger."""
        ...


def facts_of(backend: object) -> FactStore | None:
    """Return a backend's store of facts, if it has one."""
    return backend.facts if isinstance(backend, FactStoreProvider) else None


class BackendEvent(StrEnum):
    """A log event of a backend."""

    CONNECTED = "memory.backend.connected"
    DISCONNECTED = "memory.backend.disconnected"
    HEALTH_CHECK_FAILED = "memory.backend.health_check"
    #: A point that cannot be read as a memory was passed over; its id stands beside.
    ENTRY_UNREADABLE = "memory.model.invalid"
    #: A composite backend answered a query without one of its children; which, and with which errors, stands beside.
    FANOUT_PARTIAL = "memory.composite.fanout_partial"
    #: A line of the log of shared knowledge is open, and could not be carried out; its version stands beside.
    SHARED_OVERDUE = "memory.shared.overdue"


async def pages(backend: BatchBackend, where: Where) -> AsyncIterator[tuple[MemoryRecord, ...]]:
    """Yield the matches without vectors, oldest first; what is removed behind the cursor disturbs nothing.

    They are counted first: most walks of a run find nothing, and a count does not look at a single memory.
    """
    if not await backend.count_where(where):
        return
    cursor: str | None = None
    while True:
        page = await backend.scan(where, cursor=cursor)
        if page.records:
            yield page.records
        cursor = page.cursor
        if cursor is None:
            return


async def marked(backend: BatchBackend, agent_id: str, token: str) -> tuple[MemoryRecord, ...]:
    """Return, whole and with vectors, the memories that carry the token, oldest first."""
    where = Where(agent_id=agent_id, token=token)
    found: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = await backend.scan(where, cursor=cursor, with_vectors=True)
        found.extend(page.records)
        cursor = page.cursor
        if cursor is None:
            return tuple(found)
