"""The store server's web application: Qdrant's REST calls, each a line of a table, answered from a store."""

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import orjson
import qdrant_edge as edge
from pydantic import BaseModel, TypeAdapter, ValidationError
from qdrant_client.http import models as rest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memcore.free_space import FOR_REMOVALS, FOR_WRITES
from memcore.telemetry.events import Event
from memcore.vectorstore import writes
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.errors import (
    ApiError,
    BadRequestError,
    EngineFailedError,
    NotSupportedError,
    TooLargeError,
)
from memcore.vectorstore.store import OLDEST_CHECKPOINT, Store
from memcore.vectorstore.translation import (
    INDEXING_THRESHOLD_KB,
    VACUUM_MIN_POINTS,
    VACUUM_SHARE,
    described,
    engine_errors,
    engine_filter,
    engine_order,
    index_type,
    limit_of,
    payload_selector,
    point_id,
    query_of,
    refuse_shard_key,
    vector_selector,
)

#: The version of Qdrant whose REST calls are answered; a client warns when it is more than one minor version away.
QDRANT_VERSION = "1.20.0"

#: Bytes of the largest body (Qdrant's default is 32 MiB, and clients split their uploads for it).
LARGEST_BODY_BYTES = 32 * 2**20

#: Paths that show no more than that a server runs and which API it speaks (the same as Qdrant's).
_OPEN_PATHS = frozenset({"/", "/healthz", "/livez", "/readyz"})

#: Where a request's scope holds the time at which it arrived, in seconds of ``time.perf_counter``.
_ARRIVED = "memcore.vectorstore.arrived"

#: What a change of a collection may touch: hints that tune a server and do nothing here, and its metadata.
_CHANGEABLE = {"optimizers_config", "hnsw_config", "params", "metadata"}

#: A switch in a query string.
_SWITCH = TypeAdapter(bool)

M = TypeVar("M", bound=BaseModel)

_log = logging.getLogger(__name__)


def build_app(store: Store, *, api_key: str) -> Starlette:
    """Return the ASGI application that answers from an open store, and closes it at shutdown."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        upkeep = asyncio.create_task(store.keep_up())
        try:
            yield
        finally:
            upkeep.cancel()
            await store.close()

    async def healthy(_: Request) -> Response:
        # Ready all the same: the other collections are served. GET /issues lists the refused ones, and needs the key.
        refused = f"{len(store.refused)} collections are refused: GET /issues"
        return PlainTextResponse(refused if store.refused else "all shards are ready")

    return Starlette(
        routes=[
            Route("/", _version, methods=["GET"]),
            *(Route(path, healthy, methods=["GET"]) for path in ("/healthz", "/livez", "/readyz")),
            *Calls(store).routes(),
        ],
        middleware=[Middleware(ApiKeyMiddleware, api_key=api_key)],
        exception_handlers={
            **dict.fromkeys((ApiError, ValidationError, HTTPException), _refused),
            Exception: _failed,
        },
        lifespan=lifespan,
    )


class ApiKeyMiddleware:
    """Checks the API key in constant time: the header ``api-key`` or a bearer token."""

    def __init__(self, app: ASGIApp, *, api_key: str) -> None:
        self._app = app
        self._api_key = api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "http":
            scope[_ARRIVED] = time.perf_counter()
            if scope["path"] not in _OPEN_PATHS and not self._knows(Request(scope)):
                message = "Must provide an API key or an Authorization bearer token that this store server knows"
                answer = _refusal(Request(scope), HTTPStatus.UNAUTHORIZED, message)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _knows(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = request.headers.get("api-key") or (token if scheme.lower() == "bearer" else "")
        return hmac.compare_digest(given.encode(), self._api_key)


class Calls:
    """Answers the calls about collections and their points from an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """Return the routes of these calls."""
        one = "/collections/{name}"
        points = one + "/points"
        table: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("GET", "/issues", self._issues),
            ("GET", "/collections", self._listed),
            ("GET", one, self._described),
            ("PUT", one, self._create),
            ("PATCH", one, self._change),
            ("DELETE", one, self._delete),
            ("GET", one + "/exists", self._exists),
            ("POST", one + "/rewrite", self._rewrite),
            ("PUT", one + "/index", self._create_index),
            ("POST", points, self._reads(rest.PointRequest, _retrieve)),
            ("POST", points + "/query", self._reads(rest.QueryRequest, _query)),
            ("POST", points + "/query/batch", self._reads(rest.QueryRequestBatch, _query_batch)),
            ("POST", points + "/scroll", self._reads(rest.ScrollRequest, _scroll)),
            ("POST", points + "/count", self._reads(rest.CountRequest, _count)),
            ("POST", one + "/facet", self._reads(rest.FacetRequest, _facet)),
            ("PUT", points, self._writes(writes.upsert)),
            ("POST", points + "/delete", self._writes(writes.delete)),
            ("PUT", points + "/vectors", self._writes(writes.update_vectors)),
            ("POST", points + "/payload", self._writes(writes.set_payload)),
            ("POST", points + "/payload/delete", self._writes(writes.delete_payload)),
            ("POST", points + "/batch", self._batch),
        ]
        return [Route(path, call, methods=[method]) for method, path, call in table]

    def _reads(
        self, model: type[M], answer: Callable[[Collection, M], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a call that checks its body against a model of Qdrant's, and answers from the collection."""

        async def call(request: Request) -> Response:
            collection, given = self._collection(request), await _model_of(request, model)
            with engine_errors():
                result = answer(collection, given)
            return _ok(request, result)

        return call

    def _writes(self, read: writes.Reader) -> Callable[[Request], Awaitable[Response]]:
        """Return a call that reads operations from its body, and applies them."""

        async def call(request: Request) -> Response:
            collection, body = await self._for_write(request)
            with engine_errors():
                operations = await read(body, collection.shape)
            return await self._write(request, collection, operations)

        return call

    def _collection(self, request: Request) -> Collection:
        return self._store.collection(request.path_params["name"])

    async def _for_write(self, request: Request) -> tuple[Collection, dict[str, Any]]:
        # the collection first: a missing one is reported before a wrong body
        collection = self._collection(request)
        # A removal frees space, and needs little.
        removes = request.url.path.endswith("/delete")
        self._store.refuse_when_full(least=FOR_REMOVALS if removes else FOR_WRITES)
        return collection, await _body_of(request)

    async def _write(self, request: Request, collection: Collection, operations: list[writes.Operation]) -> Response:
        wait = _switch(request, "wait")
        (number,) = await collection.write([operations], wait=wait)
        return _ok(request, _updated(number, wait=wait))

    async def _batch(self, request: Request) -> Response:
        collection, body = await self._for_write(request)
        wait = _switch(request, "wait")
        with engine_errors():
            operations = await writes.batch(body, collection.shape)
        numbers = await collection.write(operations, wait=wait)
        return _ok(request, [_updated(number, wait=wait) for number in numbers])

    async def _issues(self, request: Request) -> Response:
        found = [
            {"id": f"collection/{name}", "description": reason, "related_collection": name}
            for name, reason in sorted(self._store.refused.items())
        ]
        return _ok(request, {"issues": found})

    async def _listed(self, request: Request) -> Response:
        names = sorted({*self._store.collections, *self._store.refused})
        return _ok(request, {"collections": [{"name": name} for name in names]})

    async def _exists(self, request: Request) -> Response:
        return _ok(request, {"exists": self._store.exists(request.path_params["name"])})

    async def _described(self, request: Request) -> Response:
        return _ok(request, _description(self._collection(request)))

    async def _create(self, request: Request) -> Response:
        """Create a collection; options that only tune a server are accepted and have no effect."""
        await self._store.create(request.path_params["name"], await _model_of(request, rest.CreateCollection))
        return _ok(request, result=True)

    async def _change(self, request: Request) -> Response:
        """Merge metadata, accept tuning hints and refuse every other change."""
        collection, given = self._collection(request), await _model_of(request, rest.UpdateCollection)
        if unknown := given.model_dump(exclude_none=True).keys() - _CHANGEABLE:
            raise NotSupportedError(f"update of {min(unknown)}")
        if given.metadata:
            collection.annotate(given.metadata)
        return _ok(request, result=True)

    async def _delete(self, request: Request) -> Response:
        return _ok(request, await self._store.delete(request.path_params["name"]))

    async def _rewrite(self, request: Request) -> Response:
        """Write the collection's files anew, without the bytes of what was deleted; Qdrant has no such call."""
        collection = self._collection(request)
        self._store.refuse_when_full()
        return _ok(request, {"points": await collection.rewrite()})

    async def _create_index(self, request: Request) -> Response:
        collection, given = self._collection(request), await _model_of(request, rest.CreateFieldIndex)
        self._store.refuse_when_full()
        if given.field_schema is None:
            raise BadRequestError("Wrong input: Can't auto-detect field type, please specify `field_schema`")
        with engine_errors():
            operation = edge.UpdateOperation.create_field_index(given.field_name, index_type(given.field_schema))
        return await self._write(request, collection, [operation])


def _description(collection: Collection) -> dict[str, Any]:
    with engine_errors():
        info = collection.reading().info()
    created = collection.created.model_dump(mode="json", exclude_none=True)
    params = {"shard_number": 1, "replication_factor": 1, "write_consistency_factor": 1, "on_disk_payload": True}
    for field in ("vectors", "sparse_vectors"):
        if field in created:
            params[field] = created[field]
    config: dict[str, Any] = {
        "params": params,
        # zero links: there is no graph, search is exact
        "hnsw_config": {"m": 0, "ef_construct": 4, "full_scan_threshold": INDEXING_THRESHOLD_KB},
        "optimizer_config": {
            "deleted_threshold": VACUUM_SHARE,
            "vacuum_min_vector_number": VACUUM_MIN_POINTS,
            "default_segment_number": 0,
            "indexing_threshold": INDEXING_THRESHOLD_KB,
            "flush_interval_sec": int(OLDEST_CHECKPOINT.total_seconds()),
        },
    }
    if "metadata" in created:
        config["metadata"] = created["metadata"]
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": info.indexed_vectors_count,
        "points_count": info.points_count,
        "segments_count": info.segments_count,
        "config": config,
        "payload_schema": {field: described(index) for field, index in info.payload_schema.items()},
    }


def _retrieve(collection: Collection, given: rest.PointRequest) -> Any:
    ids: list[Any] = [point_id(one) for one in given.ids]
    with_payload = payload_selector(given.with_payload, default=True)
    found = collection.reading().retrieve(ids, with_payload, vector_selector(given.with_vector))
    return [_record(one) for one in found]


def _query(collection: Collection, given: rest.QueryRequest) -> Any:
    asked = query_of(given, collection.shape)
    return {"points": [_scored(one) for one in collection.reading().query(asked)]}


def _query_batch(collection: Collection, given: rest.QueryRequestBatch) -> Any:
    asked = [query_of(one, collection.shape) for one in given.searches]
    answers = collection.reading().query_batch(edge.QueryBatchRequest(asked))
    return [{"points": [_scored(one) for one in found]} for found in answers]


def _scroll(collection: Collection, given: rest.ScrollRequest) -> Any:
    if given.offset is not None and given.order_by is not None:
        raise BadRequestError("Wrong input: Cannot use an `offset` when using `order_by`")
    asked = edge.ScrollRequest(
        offset=None if given.offset is None else point_id(given.offset),
        limit=limit_of(given.limit),
        filter=engine_filter(given.filter),
        with_payload=payload_selector(given.with_payload, default=True),
        with_vector=vector_selector(given.with_vector),
        order_by=None if given.order_by is None else engine_order(given.order_by),
    )
    found, following = collection.reading().scroll(asked)
    return {"points": [_record(one) for one in found], "next_page_offset": following}


def _count(collection: Collection, given: rest.CountRequest) -> Any:
    """Count points, always exactly."""
    return {"count": collection.reading().count(edge.CountRequest(exact=True, filter=engine_filter(given.filter)))}


def _facet(collection: Collection, given: rest.FacetRequest) -> Any:
    """Count points by the values of an indexed field, always exactly."""
    asked = edge.FacetRequest(given.key, limit_of(given.limit), exact=True, filter=engine_filter(given.filter))
    hits = collection.reading().facet(asked).hits
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits if hit.count]}


async def _body_of(request: Request) -> dict[str, Any]:
    """Read a JSON object; NaN and infinities are no JSON."""
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
    refuse_shard_key(body.get("shard_key"))
    return body


async def _model_of(request: Request, model: type[M]) -> M:
    return model.model_validate(await _body_of(request))


def _switch(request: Request, name: str) -> bool:
    """Read a switch from the query string; missing is off, as in Qdrant."""
    return _SWITCH.validate_python(request.query_params.get(name, "false"))


def _ok(request: Request, result: Any) -> Response:
    body = {"result": result, "status": "ok", "time": _took(request)}
    return Response(orjson.dumps(body, default=_plain), media_type="application/json")


def _refusal(request: Request, status: int, message: str) -> Response:
    body = {"status": {"error": message}, "time": _took(request)}
    return Response(orjson.dumps(body), status, media_type="application/json")


def _updated(operation: int, *, wait: bool) -> dict[str, Any]:
    """Describe a write: completed is on disk, acknowledged soon will be."""
    return {"operation_id": operation, "status": "completed" if wait else "acknowledged"}


def _record(found: edge.Record | edge.ScoredPoint) -> dict[str, Any]:
    """Describe a stored point: integer ids stay integers, UUIDs become text."""
    record: dict[str, Any] = {"id": found.id, "payload": found.payload}
    if found.vector is not None:
        record["vector"] = found.vector
    if found.order_value is not None:
        record["order_value"] = found.order_value
    return record


def _scored(found: edge.ScoredPoint) -> dict[str, Any]:
    return {**_record(found), "version": found.version, "score": found.score}


def _took(request: Request) -> float:
    return time.perf_counter() - float(request.scope[_ARRIVED])


def _plain(value: Any) -> Any:
    if isinstance(value, edge.SparseVector):
        return {"indices": value.indices, "values": value.values}
    raise TypeError(type(value).__name__)


async def _version(_: Request) -> Response:
    body = {"title": "memtend store server, Qdrant's REST calls over qdrant-edge", "version": QDRANT_VERSION}
    return Response(orjson.dumps(body), media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, ValidationError):
        error = BadRequestError.of(error)
    elif isinstance(error, HTTPException):
        error = NotSupportedError(f"{request.method} {request.url.path}")
    assert isinstance(error, ApiError)  # noqa: S101  # the table of handlers says so; this tells the type checker
    if error.status >= EngineFailedError.status and not isinstance(error, NotSupportedError):
        _log.error("%s method=%s path=%s error=%s", Event.STORE_CALL_FAILED, request.method, request.url.path, error)
    return _refusal(request, error.status, str(error))


async def _failed(request: Request, error: Exception) -> Response:
    # the name of the error only: its message may hold a memory's text
    _log.error(
        "%s method=%s path=%s error=%s",
        Event.STORE_CALL_CRASHED,
        request.method,
        request.url.path,
        type(error).__name__,
    )
    return _refusal(request, EngineFailedError.status, f"Service internal error: {type(error).__name__}")
