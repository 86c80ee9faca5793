"""The active collection, bound to the embedder that filled it; and the cache that follows the ledger's pointer."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client.models import Condition, Direction, Filter, FilterSelector, UpdateMode

from memcore import errors
from memcore.backends.mem0.config import PointerConfig
from memcore.backends.mem0.filters import of_shared, shared, with_ids
from memcore.backends.mem0.history import History
from memcore.backends.mem0.points import to_records, to_upsert
from memcore.backends.mem0.reader import Pager, Reader
from memcore.backends.mem0.schema import IndexedText, Key, encode_shared, ensure_collection
from memcore.backends.mem0.search import Search, SearchPlan
from memcore.backends.mem0.writer import Writer
from memcore.clock import Clock
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.embedding.protocol import Embedder, EmbedderIdentity, EmbedderKind
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import MemoryConfigError
from memcore.ids import Excluded
from memcore.ledger.database import Database
from memcore.ledger.embedders.collections import CollectionPointer, CollectionPointers, ServedCollection
from memcore.ledger.embedders.reindexes import ReindexMarks
from memcore.ledger.organization.shared_log import SharedEntry
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.records import MemoryRecord, Vectors


class SharedPoints:
    """Executes lines of the log of shared knowledge, idempotently, and reads a version."""

    def __init__(self, client: QdrantClient, collection: str, *, writer: Writer, dims: int) -> None:
        self._client = client
        self._collection = collection
        self._writer = writer
        self._dims = dims

    def vectors_of(self, record: MemoryRecord) -> Vectors | None:
        """Return the vectors under which a record would be found."""
        return self._writer.embedded([record])[0].vectors

    def execute(self, lines: Sequence[SharedEntry], known: Mapping[int, Vectors | None]) -> None:
        """Write the points of publications, and the end of those that are retracted.

        Existing points are not written anew: a slow process may execute a line long after others have gone on, and must
        not bring back what they ended.

        Args:
            lines: consecutive lines of the log; all before them are in the store.
            known: vectors that were made before, by version.
        """
        for line in lines:
            if line.record is not None:
                self._publish(replace(line.record, vectors=known.get(line.version)), line.version)
        for line in lines:
            if line.record is None:
                self._client.set_payload(
                    self._collection,
                    payload={Key.SHARED_UNTIL.value: line.version},
                    points=FilterSelector(filter=shared(with_ids([line.memory_id]))),
                    wait=True,
                )

    def newest(
        self, query: MemoryQuery, *, version: int, exclude_agent: Excluded, now: datetime
    ) -> tuple[MemoryEntry, ...]:
        """Return what matches a query without a text, newest first."""

        def narrowed(*conditions: Condition) -> Filter:
            return of_shared(query, *conditions, version=version, exclude_agent=exclude_agent, now=now)

        pager = Pager(client=self._client, collection=self._collection, narrowed=narrowed, direction=Direction.DESC)
        rows, _ = pager.page(None, query.limit)
        return tuple(record.entry for record in to_records(rows))

    def _publish(self, record: MemoryRecord, version: int) -> None:
        body: Any = to_upsert(
            self._writer.embedded([record]),
            dims=self._dims,
            mode=UpdateMode.INSERT_ONLY,
            payload_of=partial(encode_shared, version=version),
        )
        self._client.http.points_api.upsert_points(self._collection, wait=True, point_insert_operations=body)


#: From an embedder's kind, and the fusion weight that came with its collection, to how text queries are answered.
PlanOf = Callable[[EmbedderKind, float | None], SearchPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCollection:
    """A collection with its embedder, reader and writer; immutable.

    Attributes:
        collection: its name in the store.
        plan: how text queries are answered.
        shared: the shared knowledge that lies in it.
    """

    collection: str
    embedder: Embedder
    encoder: Bm25Encoder
    text: IndexedText
    identity: EmbedderIdentity
    plan: SearchPlan
    reader: Reader
    search: Search
    writer: Writer
    shared: SharedPoints


def build_active_collection(
    client: QdrantClient,
    collection: str,
    *,
    history: History,
    embedder: Embedder,
    encoder: Bm25Encoder,
    text: IndexedText,
    plan: SearchPlan,
    takes_unlabelled_vectors: bool,
) -> ActiveCollection:
    """Put a collection and its embedder together."""
    identity = EmbedderIdentity.of(embedder, text_form=text.form(encoder.weighting))
    writer = Writer(
        client,
        collection,
        history=history,
        embedder=embedder,
        encoder=encoder,
        text=text,
        space=identity.label,
        takes_unlabelled_vectors=takes_unlabelled_vectors,
    )
    return ActiveCollection(
        collection=collection,
        embedder=embedder,
        encoder=encoder,
        text=text,
        identity=identity,
        plan=plan,
        reader=Reader(client, collection, space=identity.label),
        search=Search(client, collection, embedder=embedder, encoder=encoder, plan=plan),
        writer=writer,
        shared=SharedPoints(client, collection, writer=writer, dims=embedder.dims),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerReader:
    """The pointer row, and the search plan for each embedder that it may name."""

    row: PointerConfig
    plan_of: PlanOf


def served(
    name: str,
    *,
    embedder: Embedder,
    encoder: Bm25Encoder,
    text: IndexedText,
    choice: EmbedderChoice,
    generation: int = 1,
    dense_weight: float | None = None,
    checkpoint_id: str | None = None,
) -> ServedCollection:
    """Describe a collection for its pointer row."""
    return ServedCollection(
        name=name,
        generation=generation,
        identity=EmbedderIdentity.of(embedder, text_form=text.form(encoder.weighting)),
        choice=choice.without_server,
        text_template=text.template,
        term_weighting=encoder.weighting.value,
        dense_weight=dense_weight,
        checkpoint_id=checkpoint_id,
    )


#: How long a reader uses a cached pointer. A switch delays writers for as long, so that no reader misses a write.
READ_AGE = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """The pointer row as read from the ledger, and when; no row for a backend that follows none."""

    active_collection: ActiveCollection
    pointer: CollectionPointer | None = None
    at: datetime


class CollectionCache:
    """Returns the collection that serves; safe in several threads.

    Args:
        client: the store.
        history: mem0's.
        company: whose row it is.
        configured: the active collection of the policy and the settings.
        following: how the row is followed; None for a backend that has one collection for good.
        clock: the time.
    """

    def __init__(
        self,
        client: QdrantClient,
        *,
        history: History,
        company: str,
        configured: ActiveCollection,
        following: PointerReader | None,
        clock: Clock,
    ) -> None:
        self._client = client
        self._history = history
        self._company = company
        self._configured = configured
        self._following = following
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = CacheEntry(active_collection=configured, at=clock())
        self._database = None if following is None else Database(following.row.ledger_url, name="ledger")
        self._servings = None if self._database is None else CollectionPointers(self._database, clock=clock)
        self.marks = None if self._database is None else ReindexMarks(self._database)

    def connect(self) -> None:
        """Find the collection that serves, or create it; MemoryConfigError when its embedder cannot be had."""
        configured, following, collection_pointers = self._configured, self._following, self._servings
        found = None if collection_pointers is None else collection_pointers.get(self._company)
        if found is None:
            ensure_collection(self._client, configured.collection, configured.identity)
        if collection_pointers is None or following is None:
            return
        if found is None:
            first = served(
                configured.collection,
                embedder=configured.embedder,
                encoder=configured.encoder,
                text=configured.text,
                choice=following.row.choice,
            )
            found = collection_pointers.adopt(self._company, first)
        active_collection = self.active_collection_of(found.current)
        ensure_collection(self._client, active_collection.collection, active_collection.identity)
        self._seen = CacheEntry(active_collection=active_collection, pointer=found, at=self._clock())

    def last(self) -> CacheEntry:
        """Return the cached entry, however old."""
        return self._seen

    def reading(self) -> ActiveCollection:
        """Return the active collection to read from; while the ledger is away, the cached one."""
        seen = self._seen
        try:
            return self.recent().active_collection
        except (errors.MemoryConnectionError, errors.MemoryRetrievalError):
            return seen.active_collection

    def recent(self) -> CacheEntry:
        """Return an entry at most two seconds old: what served before may be gone by now."""
        seen = self._seen
        if seen.pointer is None or timedelta() <= self._clock() - seen.at < READ_AGE:
            return seen
        return self.check_now()

    def check_now(self) -> CacheEntry:
        """Read the pointer row. Raises MemoryConnectionError; MemoryConfigError when its embedder cannot be had."""
        if self._servings is None:
            return self._seen
        with self._lock:
            # Before the call: its answer was true at some later time.
            at = self._clock()
            found = self._servings.get(self._company)
            if found is None:
                return self._seen
            before = self._seen
            same = before.pointer is not None and before.pointer.current == found.current
            active_collection = before.active_collection if same else self.active_collection_of(found.current)
            self._seen = CacheEntry(active_collection=active_collection, pointer=found, at=at)
            return self._seen

    def unfreeze(self, pointer: CollectionPointer) -> None:
        """Resume writes that a dead reindex had stopped."""
        if self._servings is not None:
            self._servings.unfreeze(self._company, version=pointer.version)

    def active_collection_of(self, wanted: ServedCollection) -> ActiveCollection:
        """Return the active collection of a collection; MemoryConfigError when its embedder is not what it was."""
        configured, following = self._configured, self._following
        text, encoder = IndexedText(wanted.text_template), _encoder(wanted, configured.encoder)
        is_configured = wanted.identity == configured.identity
        if following is None or (
            is_configured and wanted.name == configured.collection and wanted.dense_weight is None
        ):
            return configured
        embedder = configured.embedder if is_configured else following.row.load(wanted.choice)
        active_collection = build_active_collection(
            self._client,
            wanted.name,
            history=self._history,
            embedder=embedder,
            encoder=encoder,
            text=text,
            plan=following.plan_of(embedder.kind, wanted.dense_weight),
            takes_unlabelled_vectors=wanted.generation == 1,
        )
        if active_collection.identity != wanted.identity:
            raise MemoryConfigError(
                f"collection {wanted.name!r} holds vectors of {wanted.identity.label}, and {wanted.choice.provider!r} "
                f"is {active_collection.identity.label} here: install or configure what filled it, "
                "or run `memtend reindex`"
            )
        return active_collection

    def close(self) -> None:
        """Close the connections to the ledger."""
        if self._database is not None:
            self._database.close()


def _encoder(wanted: ServedCollection, configured: Bm25Encoder) -> Bm25Encoder:
    if wanted.term_weighting == configured.weighting.value:
        return configured
    return Bm25Encoder(weighting=TermWeighting(wanted.term_weighting))
