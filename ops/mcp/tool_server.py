"""A server of tools, whatever the transport: lists and calls those of a session, and turns errors into results."""

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.telemetry import tracing
from memcore.telemetry.tracing import Attribute
from ops.mcp import finetune_tools, work_tools
from ops.mcp.results import defect_result, error_result

#: All tools of operators.
OPERATOR_TOOLS = (*finetune_tools.TOOLS, *work_tools.TOOLS)


class Toolset(Protocol):
    """The tools of one session, bound to who calls."""

    def tools(self) -> Sequence[types.Tool]:
        """Return the tools that the session may call."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Carry out a call of one of them; raises MemoryError."""
        ...


#: Returns the tools of a request's session; raises MemoryError.
ToolsetOf = Callable[["ServerRequestContext[Any, Any]"], Awaitable[Toolset]]


def create_server(name: str, toolset_of: ToolsetOf, *, instructions: str) -> Server[Any]:
    """Return a server of tools; ``instructions`` is what hosts put before the model."""

    async def list_tools(
        context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        toolset = await toolset_of(context)
        return types.ListToolsResult(tools=list(toolset.tools()))

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        toolset = await toolset_of(context)
        if all(tool.name != params.name for tool in toolset.tools()):
            raise MCPError(types.INVALID_PARAMS, "Unknown tool: see tools/list")
        about = {
            Attribute.MCP_METHOD: "tools/call",
            Attribute.OPERATION: "execute_tool",
            Attribute.TOOL: params.name,
        }
        try:
            with tracing.trace(f"tools/call {params.name}", about, kind="server"):
                return await toolset.call(params.name, params.arguments or {})
        except MemoryError as error:
            return error_result(error, tool=params.name)
        except (builtins.MemoryError, RecursionError):
            # No result should hide that the process is out of memory.
            raise
        except Exception as error:  # noqa: BLE001  # its words may quote a memory, and the SDK would send them
            return defect_result(error, tool=params.name)

    return Server(
        name, version=version("memtend"), instructions=instructions, on_list_tools=list_tools, on_call_tool=call_tool
    )
