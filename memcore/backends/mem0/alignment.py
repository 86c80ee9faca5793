"""Make a collection hold what another one holds: the same points with the same payloads, embedded anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from qdrant_client import QdrantClient
from qdrant_client.models import (
    Filter,
    OverwritePayloadOperation,
    PointIdsList,
    SetPayload,
    UpdateOperation,
)

from memcore.backends.mem0.collection import DENSE, SPARSE
from memcore.backends.mem0.payload import Key, decode
from memcore.backends.mem0.raw_points import Points, retrieve, scroll
from memcore.backends.mem0.shelf import Shelf
from memcore.errors import MemoryInputError

#: Points compared at once.
PAGE = 256

#: Texts embedded between two signs of life: a server is asked for so many at once.
TEXTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """What came of a page.

    Attributes:
        looked_at: points of the source.
        written: points added to, changed in or taken out of the target.
        passed_over: points that cannot be read as a memory; they stay behind.
        following: the id from which to go on; None after the last.
    """

    looked_at: int
    written: int
    passed_over: int
    following: str | None


class Alignment:
    """Compare two collections page by page, in the order of ids, and bring the target to what the source has.

    Args:
        client: the store.
        source: the collection that serves.
        target: the shelf that is filled.
        alive: called before each write and between texts; it raises when somebody else does this work now.
    """

    def __init__(self, client: QdrantClient, source: str, target: Shelf, *, alive: Callable[[], None]) -> None:
        self._client = client
        self._source = source
        self._target = target
        self._alive = alive

    def page(self, narrowed: Filter | None, start: str | None) -> Aligned:
        """Align what lies between an id and the end of the page that begins there."""
        page = scroll(self._client, self._source, narrowed, start=start, limit=PAGE)
        theirs = self._of_target(narrowed, start, page.following)
        ours = page.points
        gone = [memory_id for memory_id in theirs if memory_id not in ours]
        missing = {key: ours[key] for key in ours if _text(ours[key]) != _text(theirs.get(key))}
        changed = {key: ours[key] for key in ours if key not in missing and ours[key] != theirs[key]}
        self._take_out(gone)
        self._change(changed)
        written, passed_over = self._add(missing)
        return Aligned(
            looked_at=len(ours),
            written=len(gone) + len(changed) + written,
            passed_over=passed_over,
            following=page.following,
        )

    def _of_target(self, narrowed: Filter | None, start: str | None, end: str | None) -> Points:
        found: Points = {}
        while True:
            page = scroll(self._client, self._target.collection, narrowed, start=start, limit=PAGE)
            within = {key: payload for key, payload in page.points.items() if end is None or key < end}
            found |= within
            if page.following is None or len(within) < len(page.points):
                return found
            start = page.following

    def _take_out(self, ids: Sequence[str]) -> None:
        if ids:
            self._alive()
            selected = PointIdsList(points=list(ids))
            self._client.delete(self._target.collection, points_selector=selected, wait=True)

    def _change(self, payloads: Points) -> None:
        if payloads:
            self._alive()
            operations: list[UpdateOperation] = [
                OverwritePayloadOperation(overwrite_payload=SetPayload(payload=payload, points=[memory_id]))
                for memory_id, payload in payloads.items()
            ]
            self._client.batch_update_points(self._target.collection, update_operations=operations, wait=True)

    def _add(self, payloads: Points) -> tuple[int, int]:
        vectors: dict[str, dict[str, Any]] = {}
        texts = {key: text for key, payload in payloads.items() if (text := self._indexed(key, payload)) is not None}
        keys = list(texts)
        for at in range(0, len(keys), TEXTS):
            self._alive()
            vectors |= self._embedded({key: texts[key] for key in keys[at : at + TEXTS]})
        if vectors:
            # Embedding takes time: what is written is what stands there now.
            found = retrieve(self._client, self._source, keys)
            points = [
                {"id": key, "vector": vectors[key], "payload": payload}
                for key, payload in found.items()
                if _text(payload) == _text(payloads[key])
            ]
            self._alive()
            body: Any = orjson.dumps({"points": points}, option=orjson.OPT_SERIALIZE_NUMPY)
            if points:
                self._client.http.points_api.upsert_points(
                    self._target.collection, wait=True, point_insert_operations=body
                )
        return len(vectors), len(payloads) - len(texts)

    def _indexed(self, memory_id: str, payload: dict[str, Any]) -> str | None:
        try:
            return self._target.text.of(decode(memory_id, payload).entry)
        except (ValueError, TypeError, MemoryInputError):
            return None

    def _dense(self, texts: list[str]) -> NDArray[np.float32]:
        embedder = self._target.embedder
        try:
            return embedder.embed_documents(texts)
        except MemoryInputError:
            if len(texts) > 1:
                return np.concatenate([self._dense([text]) for text in texts])
            # This embedder refuses what the last one took. The zero vector is near to nothing: words still find it.
            return np.zeros((1, embedder.dims), dtype=np.float32)

    def _embedded(self, texts: dict[str, str]) -> dict[str, dict[str, Any]]:
        dense = self._dense(list(texts.values()))
        sparse = self._target.encoder.encode_documents(list(texts.values()))
        made: dict[str, dict[str, Any]] = {}
        for row, key in enumerate(texts):
            made[key] = {DENSE: np.ascontiguousarray(dense[row], dtype=np.float32)}
            if sparse[row]:
                made[key][SPARSE] = {"indices": sparse[row].indices, "values": sparse[row].values}
        return made


def _text(payload: dict[str, Any] | None) -> object:
    return None if payload is None else payload.get(Key.DATA, "")
