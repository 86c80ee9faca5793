"""MCP over standard input and output: one host, one session, with all that the operating system's user may do."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from memcore.company import JobDispatcher
from memcore.ledger.ledger import Ledger
from memcore.memory.async_memory import AsyncMemory
from memcore.service import create_memory_service
from ops.mcp import agent_tools, operator_tools
from ops.mcp.tool_server import OPERATOR_TOOLS, Toolset, create_server

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings


async def serve(
    settings: "Settings",
    policy: "Policy",
    ledger: Ledger,
    dispatcher: JobDispatcher,
    *,
    actor: str,
    agent_id: str | None = None,
) -> None:
    """Serve the tools of an agent, or without one those of operators, until the host closes the input.

    ``actor`` is who stands in the audit for what operators' tools do. While it serves, whatever else this process
    prints goes to standard error: the SDK moves the descriptors.

    Raises MemoryConnectionError when the store of the memories does not answer.
    """
    async with AsyncExitStack() as opened:
        toolset: Toolset
        if agent_id is None:
            name, instructions = "memtend-operation", operator_tools.INSTRUCTIONS
            service = await opened.enter_async_context(create_memory_service(settings, policy, ledger, dispatcher))
            toolset = operator_tools.OperatorToolset(service=service, actor=actor, available=OPERATOR_TOOLS)
        else:
            name, instructions = "memtend", agent_tools.INSTRUCTIONS
            memory = await opened.enter_async_context(AsyncMemory.from_settings(settings, policy))
            toolset = await agent_tools.AgentToolset.open(memory, agent_id)

        async def toolset_of(_context: ServerRequestContext[Any, Any]) -> Toolset:
            return toolset

        server = create_server(name, toolset_of, instructions=instructions)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
