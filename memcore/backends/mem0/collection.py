"""The collection that serves: the connection to the store, the embedder that filled it, and fenced writes."""

import asyncio
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from httpx import Limits, Request, Response, Timeout, TimeoutException, TransportError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from memcore import errors
from memcore.backends.mem0.config import Mem0Config, PointerConfig
from memcore.backends.mem0.points import ensure_collection
from memcore.backends.mem0.search import Reader, SearchPlan
from memcore.backends.mem0.writer import History, Indexing, Writer
from memcore.bounded_http import trusted_for
from memcore.clock import Clock
from memcore.deadline.breaker import CircuitBreaker, Part, breaker_of
from memcore.deadline.limits import call_limit
from memcore.embedding.bm25 import TERMS_VERSION
from memcore.embedding.protocol import EmbedderKind
from memcore.ledger.collections import (
    READ_AGE,
    CollectionPointer,
    CollectionPointers,
    EmbedderIdentity,
    Phase,
    ReindexMarks,
    ServedCollection,
)
from memcore.ledger.database import Database

_T = TypeVar("_T")
_P = ParamSpec("_P")

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
        return await self._run(what, call, errors.MemoryRetrievalError)

    async def write(self, what: str, call: Callable[[], _T]) -> _T:
        """Run a write; a failure is MemoryStoreError, or MemoryConnectionError when nobody answered."""
        return await self._run(what, call, errors.MemoryStoreError)

    async def _run(self, what: str, call: Callable[[], _T], failure: type[errors.MemoryError]) -> _T:
        try:
            async with asyncio.timeout(call_limit()):
                carried = partial(copy_context().run, call)
                return await asyncio.get_running_loop().run_in_executor(self._threads, carried)
        except TimeoutError:
            raise errors.MemoryConnectionError(
                f"{what}: the vector store does not answer in time", part=Part.STORE
            ) from None
        except ApiException as error:
            raise _error_of(what, error, failure) from error
        except (TransportError, QdrantException) as error:
            # QdrantException is the client's word for "asked too often".
            raise errors.MemoryConnectionError(
                f"{what}: the vector store cannot serve now ({type(error).__name__})", part=Part.STORE
            ) from error


def _error_of(what: str, error: ApiException, failure: type[errors.MemoryError]) -> errors.MemoryError:
    # Never the answer's body: a store may quote the request in it, and the request holds the memory's text.
    if isinstance(error, ResponseHandlingException):
        if isinstance(error.source, TransportError):
            return errors.MemoryConnectionError(
                f"{what}: the vector store does not answer ({type(error.source).__name__})", part=Part.STORE
            )
        return failure(f"{what}: the vector store's answer could not be read ({type(error.source).__name__})")
    if not isinstance(error, UnexpectedResponse):
        return failure(f"{what}: the vector store refused ({type(error).__name__})")
    away = partial(errors.MemoryConnectionError, part=Part.STORE)
    kind: Callable[[str], errors.MemoryError] = failure
    problem = "refused with"
    if error.status_code == _DISK_FULL:
        kind, problem = errors.MemoryDiskFullError, "has no room on its disk:"
    elif error.status_code in _UNAUTHORIZED:
        kind, problem = away, "refused the API key:"
    elif error.status_code in _UNAVAILABLE:
        kind, problem = away, "cannot serve now, and `memtend doctor` says why:"
    return kind(f"{what}: the vector store {problem} status {error.status_code}")


#: Connections to the store that are kept between calls; those of a process's companies are seldom all in use.
_KEPT = 16

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
        client = QdrantClient(
            url=place.url,
            api_key=key,
            timeout=int(place.timeout.total_seconds()),
            check_compatibility=False,
            verify=trusted_for(place.url),
            # Left to itself, the client opens a new connection for each call to a store on this machine.
            limits=Limits(max_keepalive_connections=_KEPT, keepalive_expiry=_IDLE.total_seconds()),
        )
    client.http.client.add_middleware(partial(_within_deadline, breaker_of(Part.STORE, place.url)))
    return client


def _within_deadline(breaker: CircuitBreaker, request: Request, send: Callable[[Request], Response]) -> Response:
    with breaker.call() as limit:
        if limit is None:
            return send(request)
        request.extensions["timeout"] = Timeout(limit).as_dict()
        try:
            return send(request)
        except ResponseHandlingException as error:
            if isinstance(error.source, TimeoutException):
                breaker.timed_out()
            raise


class StoreConnections:
    """The connections to a store, its history and the ledger, which all companies of a process can share.

    A client takes 2 MB and 10 ms of processor time to make, 50 ms over TLS; each database keeps a pool on PostgreSQL.
    """

    def __init__(self, place: Mem0Config, *, clock: Clock) -> None:
        self.client = open_client(place)
        self.history = History(place.history_url, clock=clock)
        self.ledger = None if place.ledger_url is None else Database(place.ledger_url, name="ledger")

    def close(self) -> None:
        """Close every connection."""
        self.client.close()
        self.history.close()
        if self.ledger is not None:
            self.ledger.close()


#: From an embedder's kind, and the fusion weight that came with its collection, to how text queries are answered.
PlanOf = Callable[[EmbedderKind, float | None], SearchPlan]

_TRIED: ContextVar[PlanOf | None] = ContextVar("memtend_tried_plan", default=None)


@contextmanager
def searching_by(plan_of: PlanOf) -> Iterator[None]:
    """Let other plans answer what the block searches, also in its tasks and threads; the collection stays as it is."""
    token = _TRIED.set(plan_of)
    try:
        yield
    finally:
        _TRIED.reset(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCollection:
    """A collection of the store with its embedder, reader and writer; immutable.

    Attributes:
        dense_weight: the fusion weight that was measured with its embedder; None leaves it to the policy.
    """

    collection: str
    indexing: Indexing
    identity: EmbedderIdentity
    plan: SearchPlan
    reader: Reader
    writer: Writer
    dense_weight: float | None = None

    def planned_reader(self) -> Reader:
        """Return its reader, with the plan of ``searching_by`` where one is tried."""
        plan_of = _TRIED.get()
        if plan_of is None:
            return self.reader
        return self.reader.planned(plan_of(self.indexing.embedder.kind, self.dense_weight))


#: Pause between two reads of a row that keeps writes waiting; they wait for seconds.
_POLL_INTERVAL = timedelta(milliseconds=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """The pointer row as read from the ledger, and when; no row for a backend that follows none."""

    active_collection: ActiveCollection
    pointer: CollectionPointer | None = None
    at: datetime


class ServingCollection:
    """The open connection to the collection that serves; safe in several threads.

    A write counts only when the pointer row is the same before and after it; else it is repeated where the row points
    then. All writes are idempotent. So a reindex that stops the writes, and then reads the old collection, sees every
    write that counted there. See docs/explanation/embedders.md. A backend that follows no row has one collection for
    good; ``configured`` is what the policy and the settings ask for. The caller closes the connections.
    """

    def __init__(
        self,
        connections: StoreConnections,
        *,
        collection: str,
        company: str,
        configured: Indexing,
        plan_of: PlanOf,
        following: PointerConfig | None,
        clock: Clock,
    ) -> None:
        self.calls = StoreExecutor()
        self.client = connections.client
        self._history = connections.history
        self._company = company
        self._following = following
        self._plan_of = plan_of
        self._clock = clock
        self._configured = self._put_together(collection, configured)
        self._lock = threading.Lock()
        self._seen = CacheEntry(active_collection=self._configured, at=clock())
        ledger = None if following is None else connections.ledger
        self._pointers = None if ledger is None else CollectionPointers(ledger, clock=clock)
        self._marks = None if ledger is None else ReindexMarks(ledger)

    async def connect(self) -> None:
        """Find the collection that serves, or create it; MemoryConfigError when its embedder cannot be had."""
        await self.calls.read("connect", self._connect)

    def close(self) -> None:
        """Let the threads end when their calls have."""
        self.calls.close()

    async def read(
        self, what: str, call: Callable[Concatenate[Reader, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call a method of the active collection's reader; raises as StoreExecutor.read does."""
        return await self.calls.read(what, lambda: call(self.reading().planned_reader(), *args, **kwargs))

    async def write(
        self,
        what: str,
        owners: Collection[str],
        write: Callable[[Writer], _T],
        *,
        joined: Callable[[_T, _T], _T] = lambda _, last: last,
        waits: bool = True,
    ) -> _T:
        """Write memories of these owners, and return what the write returned; errors name ``what`` it was.

        ``write`` may be called again, with the same writer or another, and ``joined`` makes one answer of two. Without
        ``waits`` it raises MemoryConnectionError while writes are stopped.
        """
        before: list[_T] = []
        lookup: Callable[[], CacheEntry] = self._recent
        while True:
            done = await self.calls.write(what, partial(self._attempt, lookup, owners, write))
            if done is None:
                if not waits:
                    raise errors.MemoryConnectionError(f"{what}: writes wait for the end of a reindex")
                # Not in a thread of the calls: reads need those.
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
            else:
                answer, counts = done
                before = [joined(before[0], answer)] if before else [answer]
                if counts:
                    return before[0]
            lookup = self._check_now

    def last(self) -> ActiveCollection:
        """Return the active collection of the cached entry, however old."""
        return self._seen.active_collection

    def reading(self) -> ActiveCollection:
        """Return the active collection to read from; while the ledger is away, the cached one."""
        seen = self._seen
        try:
            return self._recent().active_collection
        except (errors.MemoryConnectionError, errors.MemoryRetrievalError):
            return seen.active_collection

    def _connect(self) -> None:
        configured, following = self._configured, self._following
        if self._pointers is None or following is None:
            ensure_collection(self.client, configured.collection, configured.identity)
            return
        found = self._pointers.get(self._company)
        if found is None:
            ensure_collection(self.client, configured.collection, configured.identity)
            first = ServedCollection(
                name=configured.collection,
                identity=configured.identity,
                choice=following.choice.without_server,
                text_template=configured.indexing.text.template,
                term_weighting=configured.indexing.encoder.weighting.value,
                terms_version=TERMS_VERSION,
            )
            found = self._pointers.adopt(self._company, first)
        active_collection = self._active_collection_of(found.current)
        ensure_collection(self.client, active_collection.collection, active_collection.identity)
        self._seen = CacheEntry(active_collection=active_collection, pointer=found, at=self._clock())

    def _recent(self) -> CacheEntry:
        """Return an entry at most two seconds old: what served before may be gone by now."""
        seen = self._seen
        if seen.pointer is None or timedelta() <= self._clock() - seen.at < READ_AGE:
            return seen
        return self._check_now()

    def _check_now(self) -> CacheEntry:
        if self._pointers is None:
            return self._seen
        with self._lock:
            # Before the call: its answer was true at some later time.
            at = self._clock()
            found = self._pointers.get(self._company)
            if found is None:
                return self._seen
            before = self._seen
            same = before.pointer is not None and before.pointer.current == found.current
            active_collection = before.active_collection if same else self._active_collection_of(found.current)
            self._seen = CacheEntry(active_collection=active_collection, pointer=found, at=at)
            return self._seen

    def _attempt(
        self, lookup: Callable[[], CacheEntry], owners: Collection[str], write: Callable[[Writer], _T]
    ) -> tuple[_T, bool] | None:
        """Return what a write returned, and whether it counts; None while writes are stopped."""
        seen = lookup()
        pointer = seen.pointer
        if pointer is None or self._marks is None or self._pointers is None:
            return write(seen.active_collection.writer), True
        now = self._clock()
        if pointer.is_closed(now):
            return None
        if pointer.is_overdue(now):
            # A dead reindex had stopped the writes.
            self._pointers.unfreeze(self._company, version=pointer.version)
            return None
        marked = owners if pointer.phase is Phase.FILLING else ()
        self._marks.mark(self._company, marked)
        answer = write(seen.active_collection.writer)
        return answer, self._marks.counts(self._company, version=pointer.version, owners=marked)

    def _active_collection_of(self, wanted: ServedCollection) -> ActiveCollection:
        """Return the active collection of a collection; MemoryConfigError when its embedder is not what it was."""
        configured, following = self._configured, self._following
        is_configured = wanted.identity == configured.identity
        if following is None or (
            is_configured and wanted.name == configured.collection and wanted.dense_weight is None
        ):
            return configured
        embedder = configured.indexing.embedder if is_configured else following.load(wanted.choice)
        active_collection = self._put_together(
            wanted.name,
            Indexing.of(wanted, embedder),
            dense_weight=wanted.dense_weight,
            takes_unlabelled_vectors=wanted.generation == 1,
        )
        if active_collection.identity != wanted.identity:
            raise errors.MemoryConfigError(
                f"collection {wanted.name!r} holds vectors of {wanted.identity.label}, and {wanted.choice.provider!r} "
                f"is {active_collection.identity.label} here: install or configure what filled it, "
                "or run `memtend reindex`"
            )
        return active_collection

    def _put_together(
        self,
        collection: str,
        indexing: Indexing,
        *,
        dense_weight: float | None = None,
        takes_unlabelled_vectors: bool = True,
    ) -> ActiveCollection:
        plan = self._plan_of(indexing.embedder.kind, dense_weight)
        return ActiveCollection(
            collection=collection,
            indexing=indexing,
            identity=indexing.identity,
            plan=plan,
            reader=Reader(self.client, collection, indexing=indexing, plan=plan),
            writer=Writer(
                self.client,
                collection,
                history=self._history,
                indexing=indexing,
                takes_unlabelled_vectors=takes_unlabelled_vectors,
            ),
            dense_weight=dense_weight,
        )
