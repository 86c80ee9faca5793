"""The backend protocols: the reference's MemoryBackend, batches, shared knowledge and organisation facts.

All implementations pass one contract suite (tests/contract/backends). Everything here takes an agent id or a
``Where`` that holds one, so no call can reach another agent's memories.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from memcore.backends.fusion import HybridBackend, RankedLists
from memcore.models.memory import (
    RESERVED_PREFIX,
    Excluded,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    MemoryQuery,
    MemoryStoreRequest,
)
from memcore.models.organization import OrgFact
from memcore.records import ArchivedCopy, Facet, MemoryRecord, Page, SearchNotes, Vectors, Where

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Most records a scan returns in one page; a page with vectors of 256 entries stays near one megabyte.
MAX_PAGE = 256


@runtime_checkable
class Connectable(Protocol):
    """Is connected before it is used: every other call raises MemoryConnectionError before ``connect``."""

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


@runtime_checkable
class MemoryBackend(Connectable, Protocol):
    """Stores, finds, counts and deletes one agent's memories."""

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
    """The capabilities of a backend, to check before an operation."""

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
    """The calls of workers: many memories at once, filters and order in the store, and marks for safe removal."""

    @property
    def vector_space(self) -> str | None:
        """The space of its vectors: the embedder and the form of the texts. None when it takes any vectors.

        Vectors of another space do not fit this store: a memory that comes with them is embedded anew.
        """
        ...

    async def store_many(self, records: Sequence[MemoryRecord]) -> None:
        """Write every record whose id is not there yet (insert-only).

        One that is there, and was said before, is stated again: it gets that time and the tags (``stated_again``).
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

    async def scopes(self, where: Where, scope: Facet) -> frozenset[str]:
        """Return every session, project, task or namespace that a match was stored in. Raises MemoryRetrievalError."""
        ...

    async def scan(
        self, where: Where, *, cursor: str | None = None, limit: int = MAX_PAGE, with_vectors: bool = False
    ) -> Page:
        """Return the next page of matches, oldest first, ties by id; ``Page.cursor`` is None after the last.

        Each match that is there from first to last page is seen exactly once. Raises MemoryRetrievalError.
        """
        ...

    async def set_metadata_many(
        self,
        agent_id: str,
        ids: Sequence[str],
        metadata: MemoryMetadata | None,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> int:
        """Replace source, confidence and tags of these memories without embedding again; return how many.

        Without metadata these stay, and the time of the last change with them.

        Keys of ``extra`` are set in the records' extra at once with these; one whose value is None is taken off.
        """
        ...

    async def set_search_notes(self, agent_id: str, notes: Mapping[str, SearchNotes]) -> int:
        """Index memories under their search notes too, in place of earlier ones; return how many are there still.

        Nothing else of them changes, and none comes back that was removed meanwhile. A backend without an index keeps
        the notes alone. Raises MemoryStoreError, MemoryConnectionError, MemoryEmbeddingError.
        """
        ...

    async def claim(self, where: Where, token: str) -> int:
        """Mark what matches with the token, overwriting any older mark; return how many carry it now."""
        ...

    async def unclaim(self, agent_id: str) -> None:
        """Take every mark off this agent's memories, so that a worker with an old token deletes nothing."""
        ...


@runtime_checkable
class ArchiveIndex(Protocol):
    """Keeps searchable copies of archived memories beside an agent's own; no other call sees, counts or changes them.

    The ledger's archive is the truth, and every copy can be made of it again. A hybrid search finds them
    (``HybridBackend.retrieve_rankings``). Ask ``archive_index_of`` for it: not every backend has it.
    """

    async def index_archived(
        self, agent_id: str, copies: Sequence[ArchivedCopy], *, moved_from: Collection[str] = ()
    ) -> None:
        """Write the copies that are not there yet, all of this agent's memories.

        One that is there under a summary of ``moved_from`` is found by its new summary from now on; else it stays as it
        is. Raises MemoryStoreError, MemoryConnectionError.
        """
        ...

    async def unindex_archived(
        self,
        agent_id: str,
        *,
        summaries: Collection[str] = (),
        originals: Collection[str] = (),
        entries: Collection[str] = (),
    ) -> None:
        """Delete the copies under these summaries, those of these memories, and those of these archive entries.

        Raises MemoryStoreError, MemoryConnectionError.
        """
        ...

    async def indexed_archived(self, agent_id: str) -> tuple[ArchivedCopy, ...]:
        """Return every copy of an agent's, without vectors, by its archival id; expired ones too.

        Raises MemoryRetrievalError, MemoryConnectionError.
        """
        ...


def archive_index_of(backend: object) -> ArchiveIndex | None:
    """Return the backend as an index of archived memories; None when it keeps none."""
    return cast("ArchiveIndex", backend) if hasattr(backend, "index_archived") else None


class VectorBackend(MemoryBackend, BatchBackend, HybridBackend, Protocol):
    """A hybrid backend that makes vectors without storing anything; ask ``vector_backend_of`` for it."""

    async def document_vectors(self, entries: Sequence[MemoryEntry]) -> list[Vectors]:
        """Return the vectors under which it would store each memory. Raises MemoryEmbeddingError."""
        ...

    async def query_vectors(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return the vector of each question, one row for each; zeros where it has none. Raises as above."""
        ...


def vector_backend_of(backend: object) -> VectorBackend | None:
    """Return the backend as one that makes vectors; None when it makes none."""
    return cast("VectorBackend", backend) if hasattr(backend, "query_vectors") else None


# Every publication and every retraction makes a version of the shared knowledge, and each search sees one version: what
# was published up to it and not retracted by it. It holds no private memories, and no ``MemoryBackend`` call shows it.


@runtime_checkable
class SharedKnowledgeStore(Protocol):
    """Publishes, searches and retracts shared knowledge; a backend has it beside MemoryBackend.

    Ask ``sharing_of`` for it: a backend may have the methods without a log, and then each of them raises
    MemoryCapabilityError. The ``agent_id`` of an entry found is its publisher.
    """

    async def publish(self, agent_id: str, request: MemoryStoreRequest, *, once: bool = False) -> str:
        """Publish and return the id; every search that begins afterwards sees it, in any process.

        A publication that the agent has not retracted and that has not expired keeps its id and its first form;
        ``once`` leaves it at that also after it was retracted or has expired, and returns its last id.

        Raises MemoryInputError, MemoryConnectionError, MemoryStoreError, MemoryEmbeddingError. After a connection that
        failed the publication may appear later by itself; to publish it again is safe.
        """
        ...

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return what matches and has not expired: best first with a text, newest first without.

        What ``exclude_agent``, one or several, published is left out; ``version`` shows the knowledge as it was then.
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


def sharing_of(backend: object) -> SharedKnowledgeStore | None:
    """Return the backend as a store of shared knowledge; None when it is none, or its agents may not share."""
    can_share = isinstance(backend, MemoryCapabilities) and backend.supports_shared_access
    return backend if can_share and isinstance(backend, SharedKnowledgeStore) else None


# The ledger is the source of truth. A search result is a hint with the id and version of a fact: check with
# ``standing`` whether it is still valid.

#: The publisher of facts in the shared knowledge; no agent can have this id.
ORGANISATION = f"{RESERVED_PREFIX}organisation__"


@runtime_checkable
class FactStore(Protocol):
    """Publishes organisation facts among the shared knowledge of a company, and reads the valid ones."""

    @property
    def dense_weight(self) -> float:
        """The share of the vectors in a weighted fusion."""
        ...

    async def show(self, record: MemoryRecord) -> None:
        """Show one version of a fact; one that was shown before, or hidden since, stays as it is.

        The record is by ORGANISATION, under an id that no other version has. Raises MemoryInputError,
        MemoryConnectionError, MemoryStoreError, MemoryEmbeddingError.
        """
        ...

    async def hide(self, memory_id: str) -> None:
        """Let no search that begins afterwards find a version; one that is not shown stays hidden.

        Raises MemoryConnectionError, MemoryStoreError.
        """
        ...

    async def rankings(self, query: MemoryQuery) -> RankedLists:
        """Return the versions of facts that match a text, by meaning and by keywords; nothing but facts.

        They stand in ``dense`` and ``sparse``, each best first and with its cosine; the other lists are empty.

        Raises MemoryConnectionError, MemoryRetrievalError, MemoryEmbeddingError.
        """
        ...

    async def standing(self, fact_ids: Collection[str]) -> dict[str, tuple[int, OrgFact]]:
        """Return those of the facts that are valid, each with its version. Raises as rankings does."""
        ...

    async def policies(self, *, offset: int) -> tuple[OrgFact, ...]:
        """Return a page of the valid core policies, oldest first. Raises as rankings does."""
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


async def scanned(
    backend: BatchBackend, where: Where, *, with_vectors: bool = False
) -> AsyncIterator[tuple[MemoryRecord, ...]]:
    """Yield the pages of matches, oldest first; removals behind the cursor disturb nothing."""
    page = Page(records=(), cursor="")
    while page.cursor is not None:
        page = await backend.scan(where, cursor=page.cursor or None, with_vectors=with_vectors)
        yield page.records


async def pages(backend: BatchBackend, where: Where) -> AsyncIterator[tuple[MemoryRecord, ...]]:
    """Yield the pages of matches; they are counted first: most scans of a run find nothing."""
    if await backend.count_where(where):
        async for page in scanned(backend, where):
            yield page
