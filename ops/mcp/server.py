"""MCP over streamable HTTP, inside ``serve``: ``/mcp/{agent_id}`` for agents, ``/mcp`` for operators."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from memcore.errors import MemoryConnectionError
from memcore.ledger.access.keys import Verb
from memcore.models.memory import require_agent_id
from ops.http.access import Caller, current_caller
from ops.http.context import ServeContext
from ops.http.limits import MAX_BODY_BYTES
from ops.http.names import restore_slashes
from ops.http.problems import MemoryForbiddenError
from ops.mcp import agent_tools, operator_tools
from ops.mcp.tool_server import OPERATOR_TOOLS, Toolset, create_server

#: Where a request keeps the tools of its caller.
_TOOLSET = "memtend.mcp.toolset"


class McpEndpoint:
    """Serves one of the two servers as streamable HTTP, without sessions: each request carries its key.

    Args:
        name: of the server.
        instructions: what hosts put before the model.
        open_toolset: returns the tools of a caller, of the agent in the path if there is one; raises MemoryError.
    """

    def __init__(
        self, name: str, *, instructions: str, open_toolset: Callable[[Caller, str | None], Awaitable[Toolset]]
    ) -> None:
        self._server = create_server(name, _toolset_of_request, instructions=instructions)
        self._open_toolset = open_toolset
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block is open; it may be opened again afterwards, as an app that starts twice does."""
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
        )
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; MemoryForbiddenError and what opening the tools raises become the app's problems."""
        caller = await current_caller(Request(scope))
        if self._manager is None:
            raise MemoryConnectionError("the MCP server is not started")
        await restore_slashes(Request(scope))
        scope[_TOOLSET] = await self._open_toolset(caller, scope["path_params"].get("agent_id"))
        await self._manager.handle_request(scope, receive, send)


@dataclass(frozen=True, slots=True)
class McpEndpoints:
    """What is served at ``/mcp/{agent_id}`` and at ``/mcp``."""

    agents: McpEndpoint
    operators: McpEndpoint

    @classmethod
    def of(cls, context: ServeContext) -> Self:
        """Make them for an installation."""

        async def of_agent(caller: Caller, agent_id: str | None) -> Toolset:
            named = require_agent_id(agent_id or "")
            if not caller.sees(named):
                raise MemoryForbiddenError("the key is not for this agent")
            service = await context.service(caller.company)
            return await agent_tools.AgentToolset.open(
                service.engine,
                named,
                may_read=Verb.READ in caller.verbs,
                may_write=Verb.WRITE in caller.verbs,
                writer=caller.writer,
            )

        async def of_operator(caller: Caller, _agent_id: str | None) -> Toolset:
            if not caller.sees(None):
                raise MemoryForbiddenError("the key is not for all agents")
            service = await context.service(caller.company)
            return operator_tools.OperatorToolset(
                service=service,
                actor=caller.name,
                available=OPERATOR_TOOLS,
                verbs=caller.verbs,
                writer=caller.writer,
            )

        return cls(
            agents=McpEndpoint("memtend", instructions=agent_tools.INSTRUCTIONS, open_toolset=of_agent),
            operators=McpEndpoint(
                "memtend-operation", instructions=operator_tools.INSTRUCTIONS, open_toolset=of_operator
            ),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve both while the block is open."""
        async with self.agents.running(), self.operators.running():
            yield


async def _toolset_of_request(context: ServerRequestContext[Any, Any]) -> Toolset:
    if not isinstance(context.request, Request):
        raise TypeError("a request over HTTP has no scope")
    toolset: Toolset = context.request.scope[_TOOLSET]
    return toolset
