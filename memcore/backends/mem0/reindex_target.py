"""The target of a reindex: the collection that is filled while another one serves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from qdrant_client import QdrantClient
from qdrant_client.models import Filter, OverwritePayloadOperation, PointIdsList, SetPayload, UpdateOperation

from memcore.backends.mem0.collection import StoreExecutor, open_client
from memcore.backends.mem0.config import Mem0Config, PointerConfig
from memcore.backends.mem0.filters import of_owners
from memcore.backends.mem0.points import Key, as_vector, decode, ensure_collection
from memcore.backends.mem0.writer import Indexing
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.collections import ServedCollection
from memcore.models.memory import MemoryEntry
from memcore.records import SEARCH_NOTES_KEY

#: Points compared at once.
PAGE = 256

#: Payloads of points by id, in the order of their ids.
Points = dict[str, dict[str, Any]]

#: Texts embedded between two lease renewals: one request to a server.
TEXTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """The result of a page: points of the source, those written to or taken out of the target, and those not copied.

    The latter cannot be read as a memory. ``following`` is the id from which to go on; None after the last.
    """

    looked_at: int
    written: int
    passed_over: int
    following: str | None


class CollectionSync:
    """Copies one collection to another, page by page in the order of ids; only differences are written.

    ``alive`` is called before each write and between texts; it raises when another worker has the lease.
    """

    def __init__(
        self, client: QdrantClient, source: str, target: str, *, indexing: Indexing, alive: Callable[[], None]
    ) -> None:
        self._client = client
        self._source = source
        self._target = target
        self._indexing = indexing
        self._alive = alive

    def page(self, narrowed: Filter | None, start: str | None) -> SyncResult:
        """Align what lies between an id and the end of the page that begins there."""
        ours, following = self._scroll(self._source, narrowed, start)
        theirs = self._of_target(narrowed, start, following)
        gone = [memory_id for memory_id in theirs if memory_id not in ours]
        missing = {key: ours[key] for key in ours if _text(ours[key]) != _text(theirs.get(key))}
        changed = {key: ours[key] for key in ours if key not in missing and ours[key] != theirs[key]}
        self._take_out(gone)
        self._change(changed)
        written, passed_over = self._add(missing)
        return SyncResult(
            looked_at=len(ours),
            written=len(gone) + len(changed) + written,
            passed_over=passed_over,
            following=following,
        )

    def _of_target(self, narrowed: Filter | None, start: str | None, end: str | None) -> Points:
        found: Points = {}
        while True:
            points, start = self._scroll(self._target, narrowed, start)
            within = {key: payload for key, payload in points.items() if end is None or key < end}
            found |= within
            if start is None or len(within) < len(points):
                return found

    def _scroll(self, collection: str, narrowed: Filter | None, start: str | None) -> tuple[Points, str | None]:
        """Return points from an id on, in the order of ids, and the id from which to go on; None after the last."""
        found, following = self._client.scroll(collection, scroll_filter=narrowed, limit=PAGE, offset=start)
        return {str(one.id): one.payload or {} for one in found}, None if following is None else str(following)

    def _take_out(self, ids: Sequence[str]) -> None:
        if ids:
            self._alive()
            self._client.delete(self._target, points_selector=PointIdsList(points=list(ids)), wait=True)

    def _change(self, payloads: Points) -> None:
        if payloads:
            self._alive()
            operations: list[UpdateOperation] = [
                OverwritePayloadOperation(overwrite_payload=SetPayload(payload=payload, points=[memory_id]))
                for memory_id, payload in payloads.items()
            ]
            self._client.batch_update_points(self._target, update_operations=operations, wait=True)

    def _add(self, payloads: Points) -> tuple[int, int]:
        vectors: dict[str, dict[str, Any]] = {}
        entries = {key: entry for key, payload in payloads.items() if (entry := _entry(key, payload)) is not None}
        keys = list(entries)
        for at in range(0, len(keys), TEXTS):
            self._alive()
            vectors |= self._embedded({key: entries[key] for key in keys[at : at + TEXTS]})
        if vectors:
            # Embedding takes time: write the payloads as they are now.
            points = [
                {"id": one.id, "vector": vectors[str(one.id)], "payload": one.payload}
                for one in self._client.retrieve(self._source, keys, with_payload=True)
                if _text(one.payload) == _text(payloads[str(one.id)])
            ]
            self._alive()
            body: Any = orjson.dumps({"points": points}, option=orjson.OPT_SERIALIZE_NUMPY)
            if points:
                self._client.http.points_api.upsert_points(self._target, wait=True, point_insert_operations=body)
        return len(vectors), len(payloads) - len(entries)

    def _dense(self, texts: list[str]) -> NDArray[np.float32]:
        embedder = self._indexing.embedder
        try:
            return embedder.embed_documents(texts)
        except MemoryInputError:
            if len(texts) > 1:
                return np.concatenate([self._dense([text]) for text in texts])
            # This embedder refuses a text that the last one took. With the zero vector only keywords find it.
            return np.zeros((1, embedder.dims), dtype=np.float32)

    def _embedded(self, entries: dict[str, MemoryEntry]) -> dict[str, dict[str, Any]]:
        rows = self._indexing.rows([*entries.values()], embed=self._dense)
        return {key: as_vector(dense, sparse) for key, (dense, sparse) in zip(entries, rows, strict=True)}


def _entry(memory_id: str, payload: dict[str, Any]) -> MemoryEntry | None:
    try:
        return decode(memory_id, payload).entry
    except (ValueError, TypeError, MemoryInputError):
        return None


def _text(payload: dict[str, Any] | None) -> object:
    """Return what vectors are made of."""
    return None if payload is None else (payload.get(Key.DATA, ""), payload.get(SEARCH_NOTES_KEY))


class ReindexTarget:
    """Fills, counts and drops collections of one store. Open it after a fork, never before."""

    def __init__(self, place: Mem0Config, *, followed: PointerConfig) -> None:
        self._followed = followed
        self._client: QdrantClient = open_client(place)
        self._calls = StoreExecutor()
        self._loaded: tuple[ServedCollection, Indexing] | None = None

    async def count(self, collection: str) -> int:
        """Return how many points a collection has; 0 when it is not there."""

        def number() -> int:
            there = self._client.collection_exists(collection)
            return self._client.count(collection, exact=True).count if there else 0

        return await self._calls.read("reindex", number)

    async def drop(self, collection: str) -> None:
        """Delete a collection, if it is there."""
        await self._calls.write("reindex", lambda: self._client.delete_collection(collection))

    async def prepare(self, target: ServedCollection, *, is_begun: bool) -> None:
        """Create the target collection, or check that it exists when its filling has begun.

        Raises MemoryConfigError when its embedder is not what it was, or when what was filled is gone.
        """
        await self._calls.write("reindex", lambda: self._prepare(target, is_begun=is_begun))

    async def page(
        self,
        source: ServedCollection,
        target: ServedCollection,
        start: str | None,
        *,
        owners: Sequence[str] | None = None,
        alive: Callable[[], None],
    ) -> SyncResult:
        """Align a page of everything, or of the points of these owners, from an id on."""
        narrowed = None if owners is None else of_owners(owners)
        indexing = self._indexing(target)
        sync = CollectionSync(self._client, source.name, target.name, indexing=indexing, alive=alive)
        return await self._calls.write("reindex", partial(sync.page, narrowed, start))

    async def close(self) -> None:
        """Close the connections."""
        await self._calls.read("disconnect", self._client.close)
        self._calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def _prepare(self, target: ServedCollection, *, is_begun: bool) -> None:
        indexing = self._indexing(target)
        if is_begun and not self._client.collection_exists(target.name):
            # Made anew, it would lack what was copied before.
            raise MemoryConfigError(f"collection {target.name!r} is gone: `memtend reindex --cancel`, then begin again")
        ensure_collection(self._client, target.name, indexing.identity)

    def _indexing(self, target: ServedCollection) -> Indexing:
        if self._loaded is None or self._loaded[0] != target:
            self._loaded = (target, Indexing.of(target, self._followed.load(target.choice)))
        identity = self._loaded[1].identity
        if identity != target.identity:
            raise MemoryConfigError(
                f"the reindex was begun with {target.identity.label}, and {target.choice.provider!r} is "
                f"{identity.label} here: `memtend reindex --cancel`, then begin again"
            )
        return self._loaded[1]
