"""The collection that serves: the connection to the store, the embedder that filled it, and fenced writes."""

import asyncio
import threading
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from httpx import Limits, TransportError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse
from qdrant_client.models import Condition, Direction, Filter, FilterSelector, UpdateMode

from memcore import errors
from memcore.backends.mem0.config import Mem0Config, PointerConfig
from memcore.backends.mem0.filters import of_shared, shared, with_ids
from memcore.backends.mem0.points import Key, encode_shared, ensure_collection, to_records, to_upsert
from memcore.backends.mem0.search import Pager, Reader, Search, SearchPlan
from memcore.backends.mem0.writer import History, IndexedText, Writer
from memcore.clock import Clock
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.embedding.protocol import Embedder, EmbedderIdentity, EmbedderKind
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import (
    MemoryConfigError,
    MemoryConnectionError,
    MemoryDiskFullError,
    MemoryRetrievalError,
    MemoryStoreError,
)
from memcore.ledger.database import Database
from memcore.ledger.embedders.collections import CollectionPointer, CollectionPointers, Phase, ServedCollection
from memcore.ledger.embedders.reindexes import ReindexMarks
from memcore.ledger.organization.shared_log import SharedEntry
from memcore.models.memory import Excluded, MemoryEntry, MemoryQuery
from memcore.records import MemoryRecord, Vectors

_T = TypeVar("_T")

#: Threads that call the store: a hybrid search takes milliseconds, so a few serve hundreds of agents; embedding runs in
#: them too, and more threads than cores gain nothing.
THREADS = 4

#: Answers to a wrong or missing API key.
_UNAUTHORIZED = frozenset({401, 403})

#: Answers of a store, or of a proxy, that cannot serve now.
_UNAVAILABLE = frozenset({429, 502, 503, 504})

#: The answer of a store whose disk is full.
_DISK_FULL = 507


class StoreExecutor:
    """Runs the sync client's calls on a few threads of their own.

    asyncio's shared executor would make a slow store stop everything else that uses it.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memtend-store")

    def close(self) -> None:
        """Let the threads end when their calls have."""
        self._threads.shutdown(wait=False)

    async def read(self, what: str, call: Callable[[], _T]) -> _T:
        """Run a read; a failure is MemoryRetrievalError, or MemoryConnectionError when nobody answered."""
        return await self._run(what, call, MemoryRetrievalError)

    async def write(self, what: str, call: Callable[[], _T]) -> _T:
        """Run a write; a failure is MemoryStoreError, or MemoryConnectionError when nobody answered."""
        return await self._run(what, call, MemoryStoreError)

    async def _run(self, what: str, call: Callable[[], _T], failure: type[errors.MemoryError]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except ApiException as error:
            raise _error_of(what, error, failure) from error
        except (TransportError, QdrantException) as error:
            # QdrantException is the client's word for "asked too often".
            raise MemoryConnectionError(
                f"{what}: the vector store cannot serve now ({type(error).__name__})"
            ) from error


def _error_of(what: str, error: ApiException, failure: type[errors.MemoryError]) -> errors.MemoryError:
    # Never the answer's body: a store may quote the request in it, and the request holds the memory's text.
    if isinstance(error, ResponseHandlingException):
        if isinstance(error.source, TransportError):
            return MemoryConnectionError(f"{what}: the vector store does not answer ({type(error.source).__name__})")
        return failure(f"{what}: the vector store's answer could not be read ({type(error.source).__name__})")
    if not isinstance(error, UnexpectedResponse):
        return failure(f"{what}: the vector store refused ({type(error).__name__})")
    kind, problem = failure, "refused with"
    if error.status_code == _DISK_FULL:
        kind, problem = MemoryDiskFullError, "has no room on its disk:"
    elif error.status_code in _UNAUTHORIZED:
        kind, problem = MemoryConnectionError, "refused the API key:"
    elif error.status_code in _UNAVAILABLE:
        kind, problem = MemoryConnectionError, "cannot serve now, and `memtend doctor` says why:"
    return kind(f"{what}: the vector store {problem} status {error.status_code}")


#: How long a connection to the store is kept without use: less than the 5 s after which servers close theirs (uvicorn,
#: actix), so that no call meets a connection that is just being closed.
_IDLE = timedelta(seconds=2)


def open_client(place: Mem0Config) -> QdrantClient:
    """Return a client of the place's store; nothing is connected to before the first call."""
    key = None if place.api_key is None else place.api_key.get_secret_value()
    with warnings.catch_warnings():
        # Over loopback a key without TLS is not insecure, and elsewhere the operator chose the URL.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        # check_compatibility asks the server for its version before connect is awaited, on the event loop's thread.
        return QdrantClient(
            url=place.url,
            api_key=key,
            timeout=int(place.timeout.total_seconds()),
            check_compatibility=False,
            # Left to itself, the client opens a new connection for each call to a store on this machine.
            limits=Limits(max_keepalive_connections=THREADS, keepalive_expiry=_IDLE.total_seconds()),
        )


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


#: Pause between two reads of a row that keeps writes waiting; they wait for seconds.
_POLL_INTERVAL = timedelta(milliseconds=50)


@dataclass(frozen=True, slots=True)
class _Frozen:
    """Writes are frozen: try again."""


class FencedWriter:
    """Writes to the collection that serves, even when a reindex switches it meanwhile.

    A write counts only when the pointer row is the same before and after it; else it is repeated where the row points
    then. All writes are idempotent. So a reindex that stops the writes, and then reads the old collection, sees every
    write that counted there. See docs/explanation/embedders.md.

    Args:
        collection_cache: which collection serves.
        calls: the threads that speak to the store.
        company: whose owners are marked while a reindex is under way.
        clock: the time.
    """

    def __init__(self, collection_cache: CollectionCache, calls: StoreExecutor, *, company: str, clock: Clock) -> None:
        self._collection_cache = collection_cache
        self._calls = calls
        self._company = company
        self._clock = clock

    async def write(
        self,
        what: str,
        owners: Collection[str],
        write: Callable[[ActiveCollection], _T],
        *,
        joined: Callable[[_T, _T], _T] = lambda _, last: last,
        waits: bool = True,
    ) -> _T:
        """Write, and return what the write returned.

        Args:
            what: the call's name, for errors.
            owners: whose memories are touched.
            write: writes an active collection; it may be called again, with the same active collection or another.
            joined: makes one answer of two.
            waits: False raises MemoryConnectionError instead of waiting while writes are stopped.
        """
        before: list[_T] = []
        lookup: Callable[[], CacheEntry] = self._collection_cache.recent
        while True:
            done = await self._calls.write(what, partial(self._attempt, lookup, owners, write))
            if isinstance(done, _Frozen):
                if not waits:
                    raise MemoryConnectionError(f"{what}: writes wait for the end of a reindex")
                # Not in a thread of the calls: reads need those.
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
            else:
                answer, counts = done
                before = [joined(before[0], answer)] if before else [answer]
                if counts:
                    return before[0]
            lookup = self._collection_cache.check_now

    def _attempt(
        self, lookup: Callable[[], CacheEntry], owners: Collection[str], write: Callable[[ActiveCollection], _T]
    ) -> "tuple[_T, bool] | _Frozen":
        seen = lookup()
        pointer, marks = seen.pointer, self._collection_cache.marks
        if pointer is None or marks is None:
            return write(seen.active_collection), True
        now = self._clock()
        if pointer.is_closed(now):
            return _Frozen()
        if pointer.is_overdue(now):
            self._collection_cache.unfreeze(pointer)
            return _Frozen()
        marked = owners if pointer.phase is Phase.FILLING else ()
        marks.mark(self._company, marked)
        answer = write(seen.active_collection)
        return answer, marks.counts(self._company, version=pointer.version, owners=marked)
