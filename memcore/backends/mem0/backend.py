"""The mem0 backend: the reference's backend protocol and the batch protocol, over one collection."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client.models import Condition

from memcore import errors
from memcore.backends.base import RecordBackend
from memcore.backends.deletion import Deletion
from memcore.backends.fusion import Hit, RankedLists, default_dense_weight
from memcore.backends.mem0.collection import ActiveCollection, PlanOf, ServingCollection, StoreConnections
from memcore.backends.mem0.config import Mem0Config, PointerConfig
from memcore.backends.mem0.filters import WHOLE, SearchScope, SharedView
from memcore.backends.mem0.search import Reader, SearchPlan
from memcore.backends.mem0.shared import Facts, SharedKnowledge
from memcore.backends.mem0.writer import PLAIN, IndexedText, Indexing, Writer
from memcore.backends.protocol import MAX_PAGE, FactStore
from memcore.clock import Clock, utc_now
from memcore.config.memory import CompanyMemoryConfig
from memcore.config.retrieval import FusionStrategy, SparseTermWeight
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.embedding.protocol import Embedder, EmbedderKind
from memcore.errors import MemoryCapabilityError, MemoryConnectionError
from memcore.ledger.erasure.hidden import HiddenOwners
from memcore.ledger.organization.facts import OrgLog
from memcore.ledger.organization.shared_log import SharedLog
from memcore.models.memory import (
    Excluded,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    MemoryQuery,
    require_owner_id,
)
from memcore.records import ArchivedCopy, Facet, MemoryRecord, Page, SearchNotes, Vectors, Where
from memcore.telemetry.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Mem0Connection:
    """What is open between connect and disconnect; shared knowledge and facts need a ledger.

    Attributes:
        own: the connections that close with it; None where they were given.
        hidden: what readers are not shown; None without a ledger.
    """

    serving: ServingCollection
    own: StoreConnections | None
    shared: SharedKnowledge | None = None
    facts: Facts | None = None
    hidden: HiddenOwners | None = None

    async def close(self) -> None:
        """Close what it has opened; connections that others use too stay open."""
        self.serving.close()
        if self.own is not None:
            await asyncio.to_thread(self.own.close)


_log = logging.getLogger(__name__)


class Mem0Backend(RecordBackend):
    """Keeps memories in mem0's collection layout on a Qdrant store, readable by stock mem0.

    ``retrieve`` and ``get`` do not show expired memories; ``count``, ``get_many``, ``scan`` and the rest see all that
    is stored, so that maintenance does. Open it after a fork, never before. Safe in several tasks of one event loop.

    The collection remembers the embedder and refuses another. Without a pointer row to follow (``following``) it stays
    with the place's own collection. Organisation facts exist whether agents share knowledge (``is_sharing``) or not.
    ``connections`` that are given are those of the process, and stay open; without them it opens its own.
    """

    backend_name = "mem0"
    #: Whether its calls must be awaited on the loop on which it was connected; a writer asks.
    is_loop_bound = False
    supported_categories = frozenset(MemoryCategory)
    supports_graph = False
    supports_temporal = True
    supports_vector_search = True
    #: Maintenance keeps an agent's number down, not the store.
    max_memories_per_agent: int | None = None

    def __init__(
        self,
        place: Mem0Config,
        *,
        company: str,
        embedder: Embedder,
        encoder: Bm25Encoder,
        plan_of: PlanOf = lambda _kind, _weight: SearchPlan(),
        text_template: str = PLAIN,
        connections: StoreConnections | None = None,
        following: PointerConfig | None = None,
        is_sharing: bool = True,
        deletion: Deletion | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._place = place
        #: Whether the policy lets agents share, and a ledger holds the log.
        self.supports_shared_access = is_sharing and place.ledger_url is not None
        super().__init__(company=company, deletion=deletion, clock=clock)
        self._indexing = Indexing(embedder=embedder, encoder=encoder, text=IndexedText(text_template))
        self._plan_of = plan_of
        self._connections = connections
        self._following = following
        self._opening = asyncio.Lock()
        self._opened: Mem0Connection | None = None

    async def connect(self) -> None:
        """Open it, and create the collection if it is not there; MemoryConfigError for another embedder's vectors."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self._open()
                _log.info(Event.MEMORY_BACKEND_CONNECTED, extra={"backend": self.backend_name, **self._where()})

    async def disconnect(self) -> None:
        async with self._opening:
            opened, self._opened = self._opened, None
            if self._deletion is not None:
                await asyncio.to_thread(self._deletion.close)
            if opened is not None:
                await opened.close()
                _log.info(Event.MEMORY_BACKEND_DISCONNECTED, extra={"backend": self.backend_name, **self._where()})

    async def health_check(self) -> bool:
        opened = self._opened
        if opened is None:
            return False
        try:
            return await opened.serving.read("health_check", Reader.exists)
        except errors.MemoryError as error:
            _log.warning(Event.MEMORY_BACKEND_HEALTH_CHECK, extra={"error": str(error), **self._where()})
            return False

    @property
    def is_connected(self) -> bool:
        return self._opened is not None

    @property
    def facts(self) -> FactStore | None:
        """The store of organisation facts; None before connect or without a ledger."""
        return None if self._opened is None else self._opened.facts

    @property
    def serving(self) -> ActiveCollection:
        """The collection that serves now, with its embedder. Raises MemoryConnectionError before connect."""
        return self._connected().serving.reading()

    @property
    def vector_space(self) -> str | None:
        """The embedder and the form of the texts, as the collection records them."""
        if self._opened is not None:
            return self._opened.serving.last().identity.label
        return self._indexing.identity.label

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        return await self._found("retrieve", Reader.by_text, agent_id, query)

    async def retrieve_sparse(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        return await self._found("retrieve_sparse", Reader.by_words, agent_id, query)

    async def _found(
        self, operation: str, read: Callable[..., tuple[MemoryEntry, ...]], agent_id: str, query: MemoryQuery
    ) -> tuple[MemoryEntry, ...]:
        serving, standing = self._serving(), await self._standing(agent_id, query)
        apart, raised = await self._apart(agent_id), await self._raised(agent_id, query)
        scope = SearchScope.of_agent(agent_id, query, standing=standing, apart=apart, raised=raised)
        found = await serving.read(operation, read, scope, query, now=query.as_of or self._clock())
        return await self._current(agent_id, found, query.as_of)

    @property
    def dense_weight(self) -> float:
        if self._opened is not None:
            return self._opened.serving.last().plan.dense_weight
        return self._plan_of(self._indexing.embedder.kind, None).dense_weight

    async def retrieve_rankings(
        self,
        agent_id: str,
        query: MemoryQuery,
        *,
        include_shared: bool = False,
        exclude_agents: Collection[str] = (),
        include_archived: bool = False,
    ) -> RankedLists:
        opened, others = self._connected(), None
        standing, apart = await self._standing(agent_id, query), await self._apart(agent_id)
        raised = await self._raised(agent_id, query)
        own = SearchScope.of_agent(
            agent_id, query, beside_archived=include_archived, standing=standing, apart=apart, raised=raised
        )
        archive = SearchScope.of_archived(agent_id, query, apart=apart, raised=raised) if include_archived else None
        if query.text is not None and include_shared and self.supports_shared_access and opened.shared is not None:
            others = await opened.shared.search_scope(
                query, exclude_agent=(agent_id, *exclude_agents), view=await self._in_shared()
            )
        lists = await opened.serving.read(
            "retrieve_rankings", Reader.rankings, own, others, query, now=query.as_of or self._clock(), archive=archive
        )
        entries = {hit.entry.id: hit.entry for hit in (*lists.dense, *lists.sparse)}
        shown = {each.id: each for each in await self._current(agent_id, list(entries.values()), query.as_of)}

        def current(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
            return tuple(replace(hit, entry=shown[hit.entry.id]) for hit in hits)

        return lists if shown == entries else replace(lists, dense=current(lists.dense), sparse=current(lists.sparse))

    async def _apart(self, agent_id: str) -> Sequence[Condition]:
        """Return the conditions of an agent's memories that no search finds, and no list shows."""
        del agent_id
        return ()

    async def _raised(self, agent_id: str, query: MemoryQuery) -> Collection[str]:
        """Return the ids of an agent's memories that a query finds, whatever channels it hides."""
        del agent_id, query
        return ()

    async def _in_shared(self) -> SharedView:
        """Return how searches see shared knowledge."""
        return WHOLE

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        shared, view = self._sharing(), await self._in_shared()
        return await shared.search_shared(query, exclude_agent=exclude_agent, version=version, view=view)

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        shared, view = self._sharing(), await self._in_shared()
        return await shared.search_shared_sparse(query, exclude_agent=exclude_agent, version=version, view=view)

    async def document_vectors(self, entries: Sequence[MemoryEntry]) -> list[Vectors]:
        return await self._serving().read("document_vectors", Reader.document_vectors, entries)

    async def query_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await self._serving().read("query_vectors", Reader.query_vectors, texts)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        found = await self._serving().read("get", Reader.get, agent_id, memory_id, now=self._clock())
        return None if found is None else (await self._current(agent_id, [found]))[0]

    async def store_many(self, records: Sequence[MemoryRecord]) -> None:
        """Write every record whose id is not there yet, 256 to a request; a failure may leave some written."""
        serving = self._serving()
        for at in range(0, len(records), MAX_PAGE):
            part = records[at : at + MAX_PAGE]
            owners = {record.entry.agent_id for record in part}
            await serving.write("store_many", owners, partial(Writer.store, records=part))

    async def get_many(
        self, agent_id: str, ids: Sequence[str], *, with_vectors: bool = False
    ) -> tuple[MemoryRecord, ...]:
        return await self._serving(agent_id).read("get_many", Reader.get_many, agent_id, ids, with_vectors=with_vectors)

    async def delete_where(self, where: Where) -> int:
        """Delete what matches, with its text in the history, and return how many."""
        # Of two times the first may have found some, and the second the same or fewer.
        write = partial(Writer.remove, where=where)
        return await self._serving(where.agent_id).write("delete_where", [where.agent_id], write, joined=max)

    async def count_where(self, where: Where) -> int:
        apart = await self._apart(where.agent_id)
        return await self._serving().read("count_where", Reader.count, where, apart=apart)

    async def scopes(self, where: Where, scope: Facet) -> frozenset[str]:
        apart = await self._apart(where.agent_id)
        return await self._serving().read("scopes", Reader.scopes, where, scope, apart=apart)

    async def scan(
        self, where: Where, *, cursor: str | None = None, limit: int = MAX_PAGE, with_vectors: bool = False
    ) -> Page:
        apart = await self._apart(where.agent_id)
        return await self._serving().read(
            "scan", Reader.scan, where, cursor=cursor, limit=limit, with_vectors=with_vectors, apart=apart
        )

    async def set_metadata_many(
        self,
        agent_id: str,
        ids: Sequence[str],
        metadata: MemoryMetadata | None,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> int:
        write = partial(
            Writer.set_metadata, agent_id=agent_id, ids=ids, metadata=metadata, extra=extra or {}, now=self._clock()
        )
        return await self._serving(agent_id).write("set_metadata_many", [agent_id], write)

    async def set_search_notes(self, agent_id: str, notes: Mapping[str, SearchNotes]) -> int:
        write = partial(Writer.set_search_notes, agent_id=agent_id, notes=notes)
        return await self._serving(agent_id).write("set_search_notes", [agent_id], write)

    async def claim(self, where: Where, token: str) -> int:
        write = partial(Writer.claim, where=where, token=token)
        return await self._serving(where.agent_id).write("claim", [where.agent_id], write)

    async def unclaim(self, agent_id: str) -> None:
        await self._serving(agent_id).write("unclaim", [agent_id], partial(Writer.unclaim, agent_id=agent_id))

    async def index_archived(
        self, agent_id: str, copies: Sequence[ArchivedCopy], *, moved_from: Collection[str] = ()
    ) -> None:
        write = partial(Writer.index_archived, agent_id=agent_id, copies=copies, moved_from=moved_from)
        await self._serving(agent_id).write("index_archived", [agent_id], write)

    async def unindex_archived(
        self,
        agent_id: str,
        *,
        summaries: Collection[str] = (),
        originals: Collection[str] = (),
        entries: Collection[str] = (),
    ) -> None:
        write = partial(
            Writer.unindex_archived, agent_id=agent_id, summaries=summaries, originals=originals, entries=entries
        )
        await self._serving(agent_id).write("unindex_archived", [agent_id], write)

    async def indexed_archived(self, agent_id: str) -> tuple[ArchivedCopy, ...]:
        return await self._serving(agent_id).read("indexed_archived", Reader.archived, agent_id)

    async def _open(self) -> Mem0Connection:
        place, company, clock = self._place, self._company, self._clock
        own, connections = None, self._connections
        if connections is None:
            own = connections = StoreConnections(place, clock=clock)
        serving = ServingCollection(
            connections,
            collection=place.collection,
            company=company,
            configured=self._indexing,
            plan_of=self._plan_of,
            following=self._following,
            clock=clock,
        )
        try:
            await serving.connect()
        except BaseException:
            await Mem0Connection(serving=serving, own=own).close()
            raise
        if (ledger := connections.ledger) is None:
            return Mem0Connection(serving=serving, own=own)
        shared = SharedKnowledge(serving, SharedLog(ledger, clock=clock), company=company, clock=clock)
        facts = Facts(serving, OrgLog(ledger, clock=clock), shared=shared, company=company, clock=clock)
        hidden = HiddenOwners(ledger, clock=clock)
        return Mem0Connection(serving=serving, own=own, shared=shared, facts=facts, hidden=hidden)

    def _sharing(self) -> SharedKnowledge:
        if (shared := self._connected().shared) is None or not self.supports_shared_access:
            raise MemoryCapabilityError("this backend shares nothing: memory.options.shared_knowledge_base is off")
        return shared

    def _connected(self) -> Mem0Connection:
        if self._opened is None:
            raise MemoryConnectionError("the backend mem0 is not connected: call connect first")
        return self._opened

    def _serving(self, agent_id: str | None = None) -> ServingCollection:
        serving = self._connected().serving
        if agent_id is not None:
            # Every filter checks its agent too; not so a call that ends before one is made, nor the marks of a write.
            require_owner_id(agent_id)
        return serving

    def _where(self) -> dict[str, str]:
        return {"company": self._company, "collection": self._place.collection}


def encoder_of(config: CompanyMemoryConfig) -> Bm25Encoder:
    """Return the encoder of sparse vectors that the policy asks for."""
    is_raw = config.retrieval.sparse_term_weight is SparseTermWeight.RAW
    return Bm25Encoder(weighting=TermWeighting.FREQUENCY if is_raw else TermWeighting.SATURATED)


def plans(config: CompanyMemoryConfig) -> PlanOf:
    """Return how text queries are answered with an embedder of a kind, and the weight that came with its collection.

    That weight was measured with the embedder, so it wins over the policy's, which wins over the kind's usual one.
    """
    retrieval = config.retrieval

    def plan_of(kind: EmbedderKind, weight: float | None) -> SearchPlan:
        chosen = retrieval.dense_weight if weight is None else weight
        return SearchPlan(
            is_hybrid=retrieval.sparse and retrieval.fusion_strategy is FusionStrategy.WEIGHTED,
            dense_weight=default_dense_weight(kind) if chosen is None else chosen,
            has_keywords=retrieval.sparse,
            has_words_of_dense=kind is not EmbedderKind.STATIC,
            min_evidence=retrieval.min_evidence,
            time_zone=retrieval.time_zone,
            hemisphere=retrieval.hemisphere,
            shown=retrieval.standing,
        )

    return plan_of
