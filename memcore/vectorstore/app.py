"""The web application: Qdrant's REST calls over a store, and a clear refusal for every other call."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import orjson
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from memcore.vectorstore.answers import refusal
from memcore.vectorstore.collection_calls import CollectionCalls
from memcore.vectorstore.gate import Gate
from memcore.vectorstore.read_calls import ReadCalls
from memcore.vectorstore.refusal import BadRequestError, EngineFailedError, NotSupportedError, RefusedError
from memcore.vectorstore.store import Store
from memcore.vectorstore.upkeep import Upkeep
from memcore.vectorstore.write_calls import WriteCalls

#: The version of Qdrant whose REST calls are answered; a client warns when it is more than one minor version away.
QDRANT_VERSION = "1.20.0"

_log = logging.getLogger(__name__)


def build_app(store: Store, *, api_key: str | None, monotonic: Callable[[], float]) -> Starlette:
    """Return the ASGI application that answers from a store and closes it at shutdown.

    Args:
        store: an open store; the application owns it from here on.
        api_key: the key that callers must send; None asks for none.
        monotonic: the clock that the store was opened with.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        upkeep = asyncio.create_task(Upkeep(store, monotonic=monotonic).run())
        try:
            yield
        finally:
            upkeep.cancel()
            await store.close()

    async def healthy(_: Request) -> Response:
        # Ready all the same: the other collections are served. Which these are is told to who has the key.
        refused = len(store.refused)
        return PlainTextResponse(
            f"{refused} collections are refused: GET /issues" if refused else "all shards are ready"
        )

    return Starlette(
        routes=[
            Route("/", _version, methods=["GET"]),
            *(Route(path, healthy, methods=["GET"]) for path in ("/healthz", "/livez", "/readyz")),
            *CollectionCalls(store).routes(),
            *ReadCalls(store).routes(),
            *WriteCalls(store).routes(),
        ],
        middleware=[Middleware(Gate, api_key=api_key)],
        exception_handlers={
            RefusedError: _refused,
            ValidationError: _invalid,
            HTTPException: _unknown_call,
            Exception: _failed,
        },
        lifespan=lifespan,
    )


async def _version(_: Request) -> Response:
    body = {"title": "memtend store server, Qdrant's REST calls over qdrant-edge", "version": QDRANT_VERSION}
    return Response(orjson.dumps(body), media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101  # the table of handlers says so; this tells the type checker
    if error.status >= EngineFailedError.status and not isinstance(error, NotSupportedError):
        _log.error("store.call.failed method=%s path=%s error=%s", request.method, request.url.path, error)
    return refusal(request, error.status, str(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)  # noqa: S101  # see _refused
    return await _refused(request, BadRequestError.of(error))


async def _unknown_call(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # see _refused
    return await _refused(request, NotSupportedError(f"{request.method} {request.url.path}"))


async def _failed(request: Request, error: Exception) -> Response:
    # the name of the error only: its message may hold a memory's text
    _log.error("store.call.crashed method=%s path=%s error=%s", request.method, request.url.path, type(error).__name__)
    return refusal(request, EngineFailedError.status, f"Service internal error: {type(error).__name__}")
