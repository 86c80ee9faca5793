"""Changes to points, from the bodies of Qdrant's REST calls to the engine's operations.

Everything is checked before the first operation is returned, so a bad request changes nothing. Points go to the engine
in chunks, because one engine call stops the whole process while it runs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import qdrant_edge as edge
from pydantic import TypeAdapter
from qdrant_client.http import models as rest

from memcore.vectorstore.errors import BadRequestError, NotSupportedError
from memcore.vectorstore.translation import (
    UNNAMED,
    Shape,
    engine_errors,
    engine_filter,
    point_id,
    refuse_shard_key,
    vector_struct,
)

#: More points than a shard holds: a page of everything.
_ALL = 2**32


@dataclass(frozen=True, kw_only=True)
class PointRemoval:
    """An operation that removes the points of a filter; how many can go is asked before (``durability.PointCount``)."""

    operation: edge.UpdateOperation
    where: edge.Filter

    def most(self, shard: edge.EdgeShard) -> int:
        """Return how many points will be gone."""
        return shard.count(edge.CountRequest(exact=True, filter=self.where))


@dataclass(frozen=True, kw_only=True)
class SparseRemoval:
    """The work before some points lose sparse vectors, around a bug of the engine.

    qdrant-edge-py 0.9.0 leaves the terms of a deleted sparse vector in its index; they come back to life when the point
    gets another one, and a search then finds the point by words that it no longer has. Emptying a vector before
    deleting it removes its terms (``test_a_sparse_vector_taken_away_is_not_found_by_its_old_terms`` holds it).
    """

    names: tuple[str, ...]
    where: edge.Filter

    def operations(self, shard: edge.EdgeShard) -> Iterator[edge.UpdateOperation]:
        """Return the operations that empty these vectors of the points that have them now."""
        for name in self.names:
            holding = edge.Filter(must=[self.where, edge.HasVectorCondition(name)])
            found, _ = shard.scroll(edge.ScrollRequest(limit=_ALL, filter=holding, with_payload=False))
            if found:
                empty: dict[str, list[float] | edge.SparseVector | list[list[float]]]
                empty = {name: edge.SparseVector(indices=[], values=[])}
                yield edge.UpdateOperation.update_vectors([edge.PointVectors(one.id, empty) for one in found])


#: Points in one engine call: about 6 ms at 256 dimensions, which is how long a search may have to wait behind it.
CHUNK_POINTS = 256

#: One step of a change: an operation of the engine, or one that is worked out when its turn comes.
Operation = edge.UpdateOperation | PointRemoval | SparseRemoval

#: Reads the body of a call; other requests are served between its chunks.
Reader = Callable[[dict[str, Any], Shape], Awaitable[list[Operation]]]

_MODES = {
    None: edge.UpdateMode.Upsert,
    "upsert": edge.UpdateMode.Upsert,
    "insert_only": edge.UpdateMode.InsertOnly,
    "update_only": edge.UpdateMode.UpdateOnly,
}

T = TypeVar("T")

_FILTER: TypeAdapter[rest.Filter | None] = TypeAdapter(rest.Filter | None)
_SELECTOR: TypeAdapter[rest.FilterSelector | rest.PointIdsList] = TypeAdapter(rest.FilterSelector | rest.PointIdsList)


async def upsert(body: dict[str, Any], shape: Shape) -> list[Operation]:
    """Read ``PUT /points``: a list of points or a batch of columns, with an update mode and an update filter."""
    _only(body, {"points", "batch", "shard_key", "update_filter", "update_mode"})
    refuse_shard_key(body.get("shard_key"))
    mode = body.get("update_mode")
    if mode is not None and mode not in _MODES:
        raise BadRequestError("Format error in JSON body: update_mode: upsert, insert_only or update_only is expected")
    if ("points" in body) == ("batch" in body):
        raise BadRequestError("Format error in JSON body: either points or batch is expected")
    condition = _FILTER.validate_python(body.get("update_filter"))
    rows = _some(_list(body["points"], "points") if "points" in body else _rows(body["batch"]))
    operations: list[Operation] = []
    for start in range(0, len(rows), CHUNK_POINTS):
        with engine_errors():
            points = [_point(row, shape) for row in rows[start : start + CHUNK_POINTS]]
            operations.append(edge.UpdateOperation.upsert_points(points, engine_filter(condition), _MODES[mode]))
        await asyncio.sleep(0)
    return operations


async def update_vectors(body: dict[str, Any], shape: Shape) -> list[Operation]:
    """Read ``PUT /points/vectors``: new vectors for points that exist; those not named are kept."""
    _only(body, {"points", "shard_key", "update_filter"})
    refuse_shard_key(body.get("shard_key"))
    condition = _FILTER.validate_python(body.get("update_filter"))
    rows = _some(_list(body.get("points"), "points"))
    operations: list[Operation] = []
    for start in range(0, len(rows), CHUNK_POINTS):
        vectors = []
        for row in rows[start : start + CHUNK_POINTS]:
            _only(row, {"id", "vector"})
            vectors.append(edge.PointVectors(point_id(row.get("id")), vector_struct(row.get("vector"), shape)))
        with engine_errors():
            operations.append(edge.UpdateOperation.update_vectors(vectors, engine_filter(condition)))
        await asyncio.sleep(0)
    return operations


async def delete_vectors(body: dict[str, Any], shape: Shape) -> list[Operation]:
    """Read ``POST /points/vectors/delete``: take named vectors from points."""
    given = rest.DeleteVectors.model_validate(body)
    refuse_shard_key(given.shard_key)
    for name in given.vector:
        if name not in shape.dense and name not in shape.sparse:
            raise BadRequestError(f"Wrong input: Not existing vector name error: {name}")
    sparse = tuple(name for name in given.vector if name in shape.sparse)
    operations: list[Operation] = []
    if given.points is not None:
        ids = _ids(given.points)
        operations.append(SparseRemoval(names=sparse, where=_with_ids(ids)))
        operations.append(edge.UpdateOperation.delete_vectors(ids, given.vector))
    if given.filter is not None:
        where = engine_filter(given.filter) or edge.Filter()
        operations.append(SparseRemoval(names=sparse, where=where))
        operations.append(edge.UpdateOperation.delete_vectors_by_filter(where, given.vector))
    return _some(operations)


async def delete(body: dict[str, Any], _shape: Shape) -> list[Operation]:
    """Read ``POST /points/delete``: by ids or by filter; ids that name nothing are no error."""
    given = _SELECTOR.validate_python(body)
    refuse_shard_key(given.shard_key)
    if isinstance(given, rest.PointIdsList):
        ids = _ids(given.points)
        return [PointRemoval(operation=edge.UpdateOperation.delete_points(ids), where=_with_ids(ids))]
    where = engine_filter(given.filter) or edge.Filter()
    return [PointRemoval(operation=edge.UpdateOperation.delete_points_by_filter(where), where=where)]


async def set_payload(body: dict[str, Any], _shape: Shape) -> list[Operation]:
    """Read ``POST /points/payload``: merge keys into the payloads of points, at ``key`` when it is given."""
    given, update = rest.SetPayload.model_validate(body), edge.UpdateOperation
    return _selected(given, update.set_payload, update.set_payload_by_filter, given.payload, given.key)


async def overwrite_payload(body: dict[str, Any], _shape: Shape) -> list[Operation]:
    """Read ``PUT /points/payload``: replace whole payloads."""
    given, update = rest.SetPayload.model_validate(body), edge.UpdateOperation
    refuse_shard_key(given.shard_key)
    if given.key is not None:
        # the engine would overwrite the whole payload and leave nothing but the part
        raise NotSupportedError("overwrite payload with key")
    return _selected(given, update.overwrite_payload, update.overwrite_payload_by_filter, given.payload)


async def delete_payload(body: dict[str, Any], _shape: Shape) -> list[Operation]:
    """Read ``POST /points/payload/delete``: take keys out of payloads."""
    given, update = rest.DeletePayload.model_validate(body), edge.UpdateOperation
    return _selected(given, update.delete_payload, update.delete_payload_by_filter, given.keys)


async def clear_payload(body: dict[str, Any], _shape: Shape) -> list[Operation]:
    """Read ``POST /points/payload/clear``: empty payloads."""
    given, update = _SELECTOR.validate_python(body), edge.UpdateOperation
    return _selected(given, update.clear_payload, update.clear_payload_by_filter)


def _selected(
    given: Any, by_ids: Callable[..., Operation], by_filter: Callable[..., Operation], *arguments: Any
) -> list[Operation]:
    """Return an operation for the points that a request names, and one for those that its filter matches."""
    refuse_shard_key(given.shard_key)
    operations: list[Operation] = []
    if (points := getattr(given, "points", None)) is not None:
        operations.append(by_ids(_ids(points), *arguments))
    if (where := getattr(given, "filter", None)) is not None:
        operations.append(by_filter(engine_filter(where) or edge.Filter(), *arguments))
    return _some(operations)


#: The operations of a batch by name.
_READERS: dict[str, Reader] = {
    "upsert": upsert,
    "update_vectors": update_vectors,
    "delete_vectors": delete_vectors,
    "delete": delete,
    "set_payload": set_payload,
    "overwrite_payload": overwrite_payload,
    "delete_payload": delete_payload,
    "clear_payload": clear_payload,
}


async def batch(body: dict[str, Any], shape: Shape) -> list[list[Operation]]:
    """Read ``POST /points/batch``: several of the above in order; one list of operations for each."""
    _only(body, {"operations"})
    operations = []
    for one in _list(body.get("operations"), "operations"):
        if type(one) is not dict or len(one) != 1:
            raise BadRequestError("Format error in JSON body: operations: objects with one operation are expected")
        ((kind, content),) = one.items()
        if kind not in _READERS:
            raise BadRequestError(f"Format error in JSON body: operations: {kind} is unknown")
        operations.append(await _READERS[kind](content, shape))
    return operations


def _point(row: Any, shape: Shape) -> edge.Point:
    _only(row, {"id", "vector", "payload"})
    payload = row.get("payload")
    if payload is not None and type(payload) is not dict:
        raise BadRequestError("Format error in JSON body: payload: an object is expected")
    return edge.Point(id=point_id(row.get("id")), vector=vector_struct(row.get("vector"), shape), payload=payload)


def _rows(given: Any) -> list[dict[str, Any]]:
    """Turn a batch of columns into rows; columns of different lengths are refused."""
    _only(given, {"ids", "vectors", "payloads"})
    ids, vectors, payloads = _list(given.get("ids"), "ids"), given.get("vectors"), given.get("payloads")
    columns: Mapping[str, Any] = vectors if type(vectors) is dict else {UNNAMED: vectors}
    lengths = {len(_list(column, "vectors")) for column in columns.values()}
    if payloads is not None:
        lengths.add(len(_list(payloads, "payloads")))
    if lengths - {len(ids)}:
        raise BadRequestError("Format error in JSON body: batch: as many vectors and payloads as ids are expected")
    return [
        {
            "id": one,
            "vector": {name: column[row] for name, column in columns.items()},
            "payload": None if payloads is None else payloads[row],
        }
        for row, one in enumerate(ids)
    ]


def _only(given: Any, known: set[str]) -> None:
    if type(given) is not dict:
        raise BadRequestError("Format error in JSON body: an object is expected")
    if unknown := given.keys() - known:
        raise BadRequestError(f"Format error in JSON body: unknown field `{min(unknown)}`")


def _list(given: Any, field: str) -> list[Any]:
    if type(given) is not list:
        raise BadRequestError(f"Format error in JSON body: {field}: a list is expected")
    return given


def _ids(given: list[Any]) -> list[Any]:
    return [point_id(one) for one in _some(given)]


def _with_ids(ids: list[Any]) -> edge.Filter:
    return edge.Filter(must=[edge.HasIdCondition(set(ids))])


def _some(given: list[T]) -> list[T]:
    if not given:
        raise BadRequestError("Wrong input: Empty update request")
    return given
