"""The store server's process: ``python -m memcore.vectorstore.server --data DIR --port N --api-key-file FILE``.

It owns the data folder alone, binds to loopback, prints ``store.ready url=... pid=...`` when it answers, and ends with
exit code 0 after SIGTERM or SIGINT: it stops accepting, finishes requests, writes everything to disk and closes. Exit
code 2 means that it could not start, with one sentence on standard error; 1 that the disk is full, and that it may be
started again.

Durability: see ``memcore.vectorstore.store``. One thread does everything but syncing: the engine keeps the
interpreter's lock in every call, so a vacuum of a large collection (about a second at 50,000 points, only after ten
quiet seconds) delays every answer, the health answer too.
"""

import argparse
import asyncio
import contextlib
import hmac
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import orjson
import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memcore.errors import MemoryConfigError, MemoryDiskFullError
from memcore.vectorstore.ownership import Ownership
from memcore.vectorstore.rest import (
    ARRIVED,
    ApiError,
    BadRequestError,
    EngineFailedError,
    NotSupportedError,
    UnauthorizedError,
    refusal,
)
from memcore.vectorstore.routes import CollectionCalls, ReadCalls, WriteCalls
from memcore.vectorstore.store import Compaction, Store

#: Paths that show no more than that a server runs and which API it speaks (the same as Qdrant's).
_OPEN_PATHS = frozenset({"/", "/healthz", "/livez", "/readyz"})


class ApiKeyMiddleware:
    """Middleware that checks the API key in constant time.

    Args:
        app: the application behind it.
        api_key: the key expected in the header ``api-key`` or as a bearer token; None lets everybody pass.
    """

    def __init__(self, app: ASGIApp, *, api_key: str | None) -> None:
        self._app = app
        self._api_key = None if api_key is None else api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "http":
            scope[ARRIVED] = time.perf_counter()
            if self._api_key is not None and scope["path"] not in _OPEN_PATHS and not self._knows(Request(scope)):
                message = "Must provide an API key or an Authorization bearer token that this store server knows"
                answer = refusal(Request(scope), UnauthorizedError.status, message)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _knows(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = request.headers.get("api-key") or (token if scheme.lower() == "bearer" else "")
        return hmac.compare_digest(given.encode(), self._api_key or b"")


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
        upkeep = asyncio.create_task(Compaction(store, monotonic=monotonic).run())
        try:
            yield
        finally:
            upkeep.cancel()
            await store.close()

    async def healthy(_: Request) -> Response:
        # Ready all the same: the other collections are served. GET /issues lists the refused ones, and needs the key.
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
        middleware=[Middleware(ApiKeyMiddleware, api_key=api_key)],
        exception_handlers={
            ApiError: _refused,
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
    assert isinstance(error, ApiError)  # noqa: S101  # the table of handlers says so; this tells the type checker
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


#: Exit code of a server that could not start.
EXIT_CANNOT_START = 2

#: Exit code of a server that found no room on its disk.
EXIT_DISK_FULL = 1

#: Seconds that requests under way get at shutdown before their connections are closed.
_GRACE_SECONDS = 20

#: Connections that wait to be accepted while an engine call runs.
_BACKLOG = 512


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server until a signal ends it; return the exit code."""
    options = _options(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with Ownership(options.data), _bound(options.host, options.port) as listener:
            api_key = _api_key(options)
            with asyncio.Runner(loop_factory=_loop) as runner:
                runner.run(_serve(options.data, listener, api_key))
    except MemoryConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CANNOT_START
    except MemoryDiskFullError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_DISK_FULL
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m memcore.vectorstore.server", description="Serve a folder of vectors over Qdrant's REST calls."
    )
    parser.add_argument("--data", type=Path, required=True, help="the data folder; this process becomes its only owner")
    parser.add_argument("--host", default="127.0.0.1", help="the address to bind to (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="the port; 0 takes a free one and the ready line names it")
    key = parser.add_mutually_exclusive_group(required=True)
    key.add_argument("--api-key-file", type=Path, help="a file that holds the API key")
    key.add_argument("--without-api-key", action="store_true", help="let every program on this machine read and write")
    return parser.parse_args(arguments)


def _api_key(options: argparse.Namespace) -> str | None:
    if options.without_api_key:
        if not ip_address(options.host).is_loopback:
            raise MemoryConfigError(f"--without-api-key is for loopback addresses, not for {options.host}.")
        return None
    try:
        key = options.api_key_file.read_text().strip()
    except OSError as error:
        raise MemoryConfigError(f"--api-key-file {options.api_key_file} cannot be read: {error.strerror}.") from error
    if not key:
        raise MemoryConfigError(f"--api-key-file {options.api_key_file} is empty.")
    return str(key)


@contextlib.contextmanager
def _bound(host: str, port: int) -> Generator[socket.socket]:
    """Bind before anything is opened: a taken port is reported at once."""
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004  # IPv6
        listener = socket.socket(family, socket.SOCK_STREAM)
    except ValueError:
        raise MemoryConfigError(f"--host {host} is no IP address.") from None
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise MemoryConfigError(f"cannot bind to {host} port {port}: {error.strerror}.") from error
        yield listener


async def _serve(data: Path, listener: socket.socket, api_key: str | None) -> None:
    store = Store(data, monotonic=time.monotonic)
    app = build_app(store, api_key=api_key, monotonic=time.monotonic)
    config = uvicorn.Config(
        app,
        http="httptools",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    listener.listen(_BACKLOG)
    await _Server(config, listener).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Uvicorn, with exit code 0 after a signal and a line when it is ready."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        self._address = listener.getsockname()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        # the original raises the signal again at the end, which would turn a clean stop into a death by signal
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            host, port = self._address[:2]
            host = f"[{host}]" if ":" in host else host
            # To a log on a full disk: saying it is no reason to end.
            with contextlib.suppress(OSError):
                sys.stdout.write(f"store.ready url=http://{host}:{port} pid={os.getpid()}\n")
                sys.stdout.flush()


def _loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415  # it does not exist on Windows
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


if __name__ == "__main__":
    sys.exit(main())
