"""The routes of MCP in ``serve``. The first request opens what is behind them: the SDK takes a second and 20 MiB."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memcore.errors import MemoryConnectionError
from memcore.models.origin import Channel, Writer, writing_as
from ops.http.context import ServeContext

if TYPE_CHECKING:
    from ops.mcp.server import McpEndpoints


class LateEndpoints:
    """The endpoints of an installation, opened by the first request."""

    def __init__(self, context: ServeContext) -> None:
        self._context = context
        self._ended: asyncio.Event | None = None
        self._serving: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[McpEndpoints]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block is open; it may be opened again afterwards, as an app that starts twice does."""
        self._ended = asyncio.Event()
        try:
            yield
        finally:
            self._ended.set()
            if self._serving is not None:
                await asyncio.wait([self._serving])
            self._ended = self._serving = None

    async def opened(self) -> "McpEndpoints":
        """Return the endpoints; raises what importing them raises, and the next request tries again."""
        if self._ended is None:
            raise MemoryConnectionError("the MCP server is not started")
        if self._serving is None or self._serving.done():
            self._opened = asyncio.get_running_loop().create_future()
            # What names no writer of its own must not write as whoever came first: the task lasts for all requests.
            with writing_as(Writer(limit=Channel.IMPORT)):
                self._serving = asyncio.create_task(self._serve(self._ended, self._opened), name="mcp")
        # A caller that goes away must not take the others' answer with it.
        return await asyncio.shield(self._opened)

    async def _serve(self, ended: asyncio.Event, opened: "asyncio.Future[McpEndpoints]") -> None:
        # A task of its own: what the SDK enters must be left by the same task, which no request is.
        try:
            server = await asyncio.to_thread(import_module, "ops.mcp.server")
            endpoints: McpEndpoints = server.McpEndpoints.of(self._context)
            async with endpoints.running():
                opened.set_result(endpoints)
                await ended.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)


class _Endpoint:
    def __init__(self, late: LateEndpoints, of: "Callable[[McpEndpoints], ASGIApp]") -> None:
        self._late = late
        self._of = of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._of(await self._late.opened())(scope, receive, send)


def mount(app: FastAPI, context: ServeContext) -> None:
    """Add ``/mcp`` and ``/mcp/{agent_id}`` to the app of ``serve``; they start and stop with it."""
    late = LateEndpoints(context)
    agents = _Endpoint(late, lambda opened: opened.agents)
    operators = _Endpoint(late, lambda opened: opened.operators)
    # An agent's id may have a slash in it.
    app.router.routes.append(Route("/mcp/{agent_id:path}", endpoint=agents, methods=["POST"]))
    app.router.routes.append(Route("/mcp", endpoint=operators, methods=["POST"]))
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: Any) -> AsyncIterator[Any]:
        async with outer(served) as state, late.running():
            yield state

    app.router.lifespan_context = lifespan
