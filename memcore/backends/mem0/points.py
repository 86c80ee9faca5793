"""Records as Qdrant points and back."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import orjson
from qdrant_client.models import Record, ScoredPoint, UpdateMode, VectorStructOutput
from qdrant_client.models import SparseVector as QdrantSparseVector

from memcore.backends.events import BackendEvent
from memcore.backends.mem0.batch import Found
from memcore.backends.mem0.collection import DENSE, SPARSE
from memcore.backends.mem0.payload import decode, encode
from memcore.backends.record import MemoryRecord, Vectors
from memcore.embedding.sparse_vector import SparseVector
from memcore.errors import MemoryInputError
from memcore.models import MemoryEntry

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
