"""Changes to points, from the bodies of Qdrant's REST calls to the engine's operations.

Everything is checked before the first operation is returned, so a bad request changes nothing. Points go to the engine
in chunks, because one engine call stops the whole process while it runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeVar

import qdrant_edge as edge
from pydantic import TypeAdapter
from qdrant_client.http import models as rest

from memcore.vectorstore.errors import BadRequestError, NotSupportedError
from memcore.vectorstore.translation import (
    Shape,
    engine_errors,
    engine_filter,
    point_id,
    refuse_shard_key,
    vector_struct,
)


@dataclass(frozen=True, kw_only=True)
class PointRemoval:
    """An operation that removes the points of a filter; how many can go is asked before (``collection.PointCount``)."""

    operation: edge.UpdateOperation
    where: edge.Filter

    def most(self, shard: edge.EdgeShard) -> int:
        """Return how many points will be gone."""
        return shard.count(edge.CountRequest(exact=True, filter=self.where))


#: Points in one engine call: about 6 ms at 256 dimensions, which is how long a search may have to wait behind it.
CHUNK_POINTS = 256

#: One step of a change.
Operation = edge.UpdateOperation | PointRemoval

#: Reads the body of a call; other requests are served between its chunks.
Reader = Callable[[dict[str, Any], Shape], Awaitable[list[Operation]]]

_MODES = {
    None: edge.UpdateMode.Upsert,
    "upsert": edge.UpdateMode.Upsert,
    "insert_only": edge.UpdateMode.InsertOnly,
    "update_only": edge.UpdateMode.UpdateOnly,
}

T = TypeVar("T")

_SELECTOR: TypeAdapter[rest.FilterSelector | rest.PointIdsList] = TypeAdapter(rest.FilterSelector | rest.PointIdsList)


async def upsert(body: dict[str, Any], shape: Shape) -> list[Operation]:
    """Read ``PUT /points``: a list of points, with an update mode."""
    _only(body, {"points", "shard_key", "update_mode"}, elsewhere={"batch", "update_filter"})
    mode = body.get("update_mode")
    if mode is not None and mode not in _MODES:
        raise BadRequestError("Format error in JSON body: update_mode: upsert, insert_only or update_only is expected")
    rows = _some(_list(body.get("points"), "points"))
    operations: list[Operation] = []
    for start in range(0, len(rows), CHUNK_POINTS):
        with engine_errors():
            points = [_point(row, shape) for row in rows[start : start + CHUNK_POINTS]]
            operations.append(edge.UpdateOperation.upsert_points(points, None, _MODES[mode]))
        await asyncio.sleep(0)
    return operations


async def update_vectors(body: dict[str, Any], shape: Shape) -> list[Operation]:
    """Read ``PUT /points/vectors``: new vectors for points that exist; those not named are kept."""
    _only(body, {"points", "shard_key"}, elsewhere={"update_filter"})
    rows = _some(_list(body.get("points"), "points"))
    operations: list[Operation] = []
    for start in range(0, len(rows), CHUNK_POINTS):
        vectors = []
        for row in rows[start : start + CHUNK_POINTS]:
            _only(row, {"id", "vector"})
            vectors.append(edge.PointVectors(point_id(row.get("id")), vector_struct(row.get("vector"), shape)))
        with engine_errors():
            operations.append(edge.UpdateOperation.update_vectors(vectors))
        await asyncio.sleep(0)
    return operations


async def delete(body: dict[str, Any], _shape: Shape) -> list[Operation]:
    """Read ``POST /points/delete``: by ids or by filter; ids that name nothing are no error."""
    given = _SELECTOR.validate_python(body)
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
    """Read an operation of a batch: replace whole payloads."""
    given, update = rest.SetPayload.model_validate(body), edge.UpdateOperation
    if given.key is not None:
        # the engine would overwrite the whole payload and leave nothing but the part
        raise NotSupportedError("overwrite payload with key")
    return _selected(given, update.overwrite_payload, update.overwrite_payload_by_filter, given.payload)


async def delete_payload(body: dict[str, Any], _shape: Shape) -> list[Operation]:
    """Read ``POST /points/payload/delete``: take keys out of payloads."""
    given, update = rest.DeletePayload.model_validate(body), edge.UpdateOperation
    return _selected(given, update.delete_payload, update.delete_payload_by_filter, given.keys)


def _selected(
    given: Any, by_ids: Callable[..., Operation], by_filter: Callable[..., Operation], *arguments: Any
) -> list[Operation]:
    """Return an operation for the points that a request names, and one for those that its filter matches."""
    operations: list[Operation] = []
    if given.points is not None:
        operations.append(by_ids(_ids(given.points), *arguments))
    if given.filter is not None:
        operations.append(by_filter(engine_filter(given.filter) or edge.Filter(), *arguments))
    return _some(operations)


#: The operations of a batch by name; Qdrant's others are not supported.
_READERS: dict[str, Reader] = {
    "upsert": upsert,
    "update_vectors": update_vectors,
    "delete": delete,
    "set_payload": set_payload,
    "overwrite_payload": overwrite_payload,
    "delete_payload": delete_payload,
}

_ELSEWHERE = {"delete_vectors", "clear_payload"}


async def batch(body: dict[str, Any], shape: Shape) -> list[list[Operation]]:
    """Read ``POST /points/batch``: several of the above in order; one list of operations for each."""
    _only(body, {"operations"})
    operations = []
    for one in _list(body.get("operations"), "operations"):
        if type(one) is not dict or len(one) != 1:
            raise BadRequestError("Format error in JSON body: operations: objects with one operation are expected")
        ((kind, content),) = one.items()
        if kind in _ELSEWHERE:
            raise NotSupportedError(f"operation {kind}")
        if kind not in _READERS:
            raise BadRequestError(f"Format error in JSON body: operations: {kind} is unknown")
        if type(content) is dict:
            refuse_shard_key(content.get("shard_key"))
        operations.append(await _READERS[kind](content, shape))
    return operations


def _point(row: Any, shape: Shape) -> edge.Point:
    _only(row, {"id", "vector", "payload"})
    payload = row.get("payload")
    if payload is not None and type(payload) is not dict:
        raise BadRequestError("Format error in JSON body: payload: an object is expected")
    return edge.Point(id=point_id(row.get("id")), vector=vector_struct(row.get("vector"), shape), payload=payload)


def _only(given: Any, known: set[str], *, elsewhere: AbstractSet[str] = frozenset()) -> None:
    """Refuse a field that is not known, as not supported where a Qdrant server knows it."""
    if type(given) is not dict:
        raise BadRequestError("Format error in JSON body: an object is expected")
    if unsupported := given.keys() & elsewhere:
        raise NotSupportedError(min(unsupported))
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
