"""Answers, in the JSON that Qdrant's clients read."""

import time
from typing import Any

import orjson
import qdrant_edge as edge
from starlette.requests import Request
from starlette.responses import Response

#: Where the gate leaves the time at which a request arrived, in seconds of ``time.perf_counter``.
ARRIVED = "memcore.vectorstore.arrived"


def ok(request: Request, result: Any) -> Response:
    """Answer with a result."""
    body = {"result": result, "status": "ok", "time": _took(request)}
    return Response(orjson.dumps(body, default=_plain), media_type="application/json")


def refusal(request: Request, status: int, message: str) -> Response:
    """Answer with an error of Qdrant's shape."""
    body = {"status": {"error": message}, "time": _took(request)}
    return Response(orjson.dumps(body), status, media_type="application/json")


def updated(operation: int, *, wait: bool) -> dict[str, Any]:
    """Describe a write: completed is on disk, acknowledged soon will be."""
    return {"operation_id": operation, "status": "completed" if wait else "acknowledged"}


def record(found: edge.Record | edge.ScoredPoint) -> dict[str, Any]:
    """Describe a stored point: integer ids stay integers, UUIDs become text."""
    described: dict[str, Any] = {"id": found.id, "payload": found.payload}
    if found.vector is not None:
        described["vector"] = found.vector
    if found.order_value is not None:
        described["order_value"] = found.order_value
    return described


def scored(found: edge.ScoredPoint) -> dict[str, Any]:
    """Describe a point that a query found."""
    return {**record(found), "version": found.version, "score": found.score}


def _took(request: Request) -> float:
    return time.perf_counter() - float(request.scope[ARRIVED])


def _plain(value: Any) -> Any:
    if isinstance(value, edge.SparseVector):
        return {"indices": value.indices, "values": value.values}
    raise TypeError(type(value).__name__)
