"""Records as Qdrant points and back."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException
from qdrant_client.models import Filter, Record, ScoredPoint, UpdateMode, VectorStructOutput
from qdrant_client.models import SparseVector as QdrantSparseVector

from memcore.backends.mem0.schema import DENSE, SPARSE, decode, encode
from memcore.backends.protocol import BackendEvent
from memcore.embedding.vectors import SparseVector
from memcore.errors import MemoryInputError
from memcore.models.memory import MemoryEntry
from memcore.records import MemoryRecord, Vectors

# The client's models cost a search more than the store's engine does: the request is built of dicts instead,
# and only the fields that a search needs are read. The call itself is the client's own: key, time-out and errors.


@dataclass(frozen=True, slots=True)
class Found:
    """A point that a query found."""

    memory_id: str
    score: float
    payload: dict[str, Any] = field(default_factory=dict)


def ask(client: QdrantClient, collection: str, queries: Sequence[dict[str, Any]]) -> list[list[Found]]:
    """Return the points of each query, best first; numpy vectors may stand in a query as they are.

    Raises what the client raises; ResponseHandlingException also for an answer that is none.
    """
    answer = client.http.client.request(
        type_=dict[str, Any],
        method="POST",
        url="/collections/{collection_name}/points/query/batch",
        path_params={"collection_name": collection},
        headers={"Content-Type": "application/json"},
        content=orjson.dumps({"searches": queries}, option=orjson.OPT_SERIALIZE_NUMPY),
    )
    try:
        pairs = zip(queries, answer["result"], strict=True)
        return [[_found(point) for point in one["points"]] for _, one in pairs]
    except (KeyError, TypeError, ValueError) as error:
        raise ResponseHandlingException(error) from error


def as_json(narrowed: Filter) -> dict[str, Any]:
    """Return a filter as it stands in a query."""
    return narrowed.model_dump(mode="json", exclude_none=True)


def _found(point: dict[str, Any]) -> Found:
    return Found(str(point["id"]), float(point["score"]), point.get("payload") or {})


_log = logging.getLogger(__name__)


def to_upsert(
    records: Sequence[MemoryRecord],
    *,
    dims: int,
    mode: UpdateMode,
    payload_of: Callable[[MemoryRecord], dict[str, Any]] = encode,
) -> bytes:
    """Return the body of Qdrant's upsert for records with vectors, each with the payload that is made of it.

    Written straight to JSON, because building the client's models and letting them write it takes four times as long
    and is a third of what a stored memory costs a worker. A 32-bit number is written as one, in half the digits.

    Raises:
        MemoryInputError: a record has no vectors, or a dense one that is not of length dims.
    """
    points = [_point(record, payload_of(record), dims=dims) for record in records]
    return orjson.dumps({"points": points, "update_mode": mode.value}, option=orjson.OPT_SERIALIZE_NUMPY)


def _point(record: MemoryRecord, payload: dict[str, Any], *, dims: int) -> dict[str, Any]:
    if record.vectors is None:
        raise MemoryInputError("vectors", "must be there before a record becomes a point")
    dense, sparse = record.vectors.dense, record.vectors.sparse
    if dense.shape != (dims,):
        raise MemoryInputError("vectors.dense", f"has the shape {dense.shape}; the collection holds ({dims},)")
    vector: dict[str, Any] = {DENSE: np.ascontiguousarray(dense, dtype=np.float32)}
    if sparse:
        vector[SPARSE] = {"indices": sparse.indices, "values": sparse.values}
    return {"id": record.entry.id, "vector": vector, "payload": payload}


def to_records(points: Iterable[Record | ScoredPoint], *, space: str | None = None) -> list[MemoryRecord]:
    """Return the records of these points; one that cannot be read as a memory is logged by its id and passed over.

    Args:
        points: as the store gave them.
        space: what their vectors mean, if they came with them.
    """
    return [record for point in points if (record := to_record(point, space=space)) is not None]


def to_record(point: Record | ScoredPoint, *, space: str | None = None) -> MemoryRecord | None:
    """Return the record of a point, with its vectors if it came with them; None when it is no memory."""
    return _read(str(point.id), point.payload or {}, vectors=_vectors(point.vector, space=space))


def to_entry(found: Found, *, relevance: float | None = None) -> MemoryEntry | None:
    """Return the entry of a point that a query found, with its relevance; None when it is no memory."""
    record = _read(found.memory_id, found.payload, relevance=relevance)
    return None if record is None else record.entry


def _read(
    memory_id: str, payload: dict[str, Any], *, vectors: Vectors | None = None, relevance: float | None = None
) -> MemoryRecord | None:
    try:
        return decode(memory_id, payload, vectors=vectors, relevance=relevance)
    except (ValueError, TypeError, MemoryInputError) as error:
        # One point that somebody else wrote must not make all the others unreadable.
        _log.warning(BackendEvent.ENTRY_UNREADABLE, extra={"memory_id": memory_id, "error": type(error).__name__})
        return None


def _vectors(vector: VectorStructOutput | None, *, space: str | None) -> Vectors | None:
    named: dict[str, Any] = vector if isinstance(vector, dict) else {DENSE: vector}
    dense, sparse = named.get(DENSE), named.get(SPARSE)
    if dense is None:
        return None
    known = None if sparse is None else _from_sparse(sparse)
    return Vectors(dense=np.asarray(dense, dtype=np.float32), sparse=known, space=space)


def _from_sparse(vector: QdrantSparseVector) -> SparseVector:
    # Ascending: a store may return the terms in an order of its own.
    pairs = sorted(zip(vector.indices, vector.values, strict=True))
    return SparseVector(indices=tuple(i for i, _ in pairs), values=tuple(v for _, v in pairs))


#: Points by id, in the order of their ids.
Points = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page of points, and the id from which the next one goes on; None after the last."""

    points: Points
    following: str | None


def scroll(client: QdrantClient, collection: str, narrowed: Filter | None, *, start: str | None, limit: int) -> RawPage:
    """Return points from an id on, in the order of ids."""
    body: dict[str, Any] = {"limit": limit, "with_payload": True, "with_vector": False}
    if start is not None:
        body["offset"] = start
    if narrowed is not None:
        body["filter"] = as_json(narrowed)
    answer = _post(client, collection, "/points/scroll", body)
    following = answer["next_page_offset"]
    return RawPage(_points(answer["points"]), None if following is None else str(following))


def retrieve(client: QdrantClient, collection: str, ids: Sequence[str]) -> Points:
    """Return those of these points that are there."""
    return _points(_post(client, collection, "/points", {"ids": list(ids), "with_payload": True, "with_vector": False}))


def _post(client: QdrantClient, collection: str, path: str, body: dict[str, Any]) -> Any:
    answer = client.http.client.request(
        type_=dict[str, Any],
        method="POST",
        url="/collections/{collection_name}" + path,
        path_params={"collection_name": collection},
        headers={"Content-Type": "application/json"},
        content=orjson.dumps(body),
    )
    try:
        return answer["result"]
    except (KeyError, TypeError) as error:
        raise ResponseHandlingException(error) from error


def _points(found: Any) -> Points:
    try:
        return {str(point["id"]): point.get("payload") or {} for point in found}
    except (KeyError, TypeError) as error:
        raise ResponseHandlingException(error) from error
