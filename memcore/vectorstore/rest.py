"""Qdrant's REST format: request bodies, answers, and the errors with their HTTP status."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import orjson
import qdrant_edge as edge
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from memcore.errors import MemoryError as MemtendError

# ::
#
#     ApiError
#     ├── BadRequestError      400  the request is wrong; nothing was written
#     ├── UnauthorizedError    401  the API key is missing or wrong
#     ├── NotFoundError        404  no such collection, alias or point
#     ├── ConflictError        409  it exists already
#     ├── TooLargeError        413  the body is above the limit
#     ├── EngineFailedError    500  the engine or the disk failed
#     ├── NotSupportedError    501  Qdrant knows it, this store does not
#     ├── UnavailableError     503  the collection is damaged and was set aside
#     └── DiskFullError        507  the disk has no room for what the request adds

#: How the engine's own message begins when the request, not the engine, is at fault (seen in qdrant-edge-py 0.9.0).
_CALLERS_FAULT = (
    "Vector dimension error",
    "Not existing vector name error",
    "Validation failed",
    "No range index",
    "No appropriate index",
    "invalid JSON path",
    "Wrong input",
    "Bad request",
)

#: How the engine's message begins when a write named a point that is not there; the other points were written.
_MISSING_POINT = "No point with id"


class ApiError(MemtendError):
    """The store will not or cannot answer; the message says why and the status is the HTTP one."""

    #: The HTTP status of the answer.
    status: ClassVar[int] = 500


class BadRequestError(ApiError):
    """The request is wrong: change it; nothing was written."""

    status = 400

    @classmethod
    def of(cls, error: ValidationError) -> "BadRequestError":
        """Name the first wrong field and what is wrong with it, never the value that was sent."""
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        return cls(f"Format error in JSON body: {where}: {first['msg']}")


class UnauthorizedError(ApiError):
    """The API key is missing or wrong."""

    status = 401


class NotFoundError(ApiError):
    """Nothing has that name or id."""

    status = 404

    @classmethod
    def collection(cls, name: str) -> "NotFoundError":
        """Build the error in Qdrant's words, which clients match."""
        return cls(f"Not found: Collection `{name}` doesn't exist!")


class ConflictError(ApiError):
    """It exists already."""

    status = 409


class TooLargeError(ApiError):
    """The body is above the limit: send fewer points at a time."""

    status = 413


class EngineFailedError(ApiError):
    """The engine or the disk failed; what was answered before is unharmed."""

    is_retryable = True
    status = 500


class NotSupportedError(ApiError):
    """Qdrant knows this call or option and the embedded store does not: use a Qdrant server for it."""

    status = 501

    def __init__(self, what: str) -> None:
        """Build the sentence from the name of the call or option."""
        super().__init__(f"Not supported by the embedded store: {what}; a Qdrant server has it")


class UnavailableError(ApiError):
    """The collection is damaged; the message says how, and which command restores it."""

    status = 503


class DiskFullError(ApiError):
    """The disk has no room; nothing was written. Make room, and send it again."""

    is_retryable = True
    status = 507


@contextmanager
def engine_errors() -> Generator[None]:
    """Turn what the engine raises into a refusal: 400 and 404 where the request is at fault, 500 otherwise."""
    try:
        yield
    except (ApiError, ValidationError):
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequestError(f"Format error in JSON body: {str(error).splitlines()[0]}") from error
    except Exception as error:
        message = str(error)
        if message.startswith(_MISSING_POINT):
            raise NotFoundError(f"Not found: {message} found") from error
        if message.startswith(_CALLERS_FAULT):
            raise BadRequestError(f"Wrong input: {message}") from error
        raise EngineFailedError(f"Service internal error: {message}") from error
    except BaseException as error:
        # A Rust panic arrives as a BaseException and would otherwise end the event loop with every other request.
        if type(error).__name__ != "PanicException":
            raise
        raise EngineFailedError("Service internal error: the engine panicked") from error


#: Bytes of the largest body (Qdrant's default is 32 MiB, and clients split their uploads for it).
LARGEST_BODY_BYTES = 32 * 2**20

M = TypeVar("M", bound=BaseModel)


async def body_of(request: Request) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        BadRequestError: it is no JSON object; NaN and infinities are no JSON.
        TooLargeError: it is above the limit.
    """
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_BODY_BYTES:
            raise TooLargeError(f"JSON payload is above the limit of {LARGEST_BODY_BYTES} bytes: send fewer points")
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        # the decoder's message holds a position, never the text
        raise BadRequestError(f"Format error in JSON body: {error.msg}") from error
    if type(body) is not dict:
        raise BadRequestError("Format error in JSON body: an object is expected")
    return body


async def model_of(request: Request, model: type[M]) -> M:
    """Read a JSON object and check it against one of Qdrant's models."""
    return model.model_validate(await body_of(request))


#: A switch in a query string.
_SWITCH = TypeAdapter(bool)


def switch(request: Request, name: str) -> bool:
    """Read a switch from the query string; missing is off, as in Qdrant."""
    return _SWITCH.validate_python(request.query_params.get(name, "false"))


#: Where the API key middleware leaves the time at which a request arrived, in seconds of ``time.perf_counter``.
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
