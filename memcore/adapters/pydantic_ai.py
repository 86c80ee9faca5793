"""``MemtendToolset``: the memory tools of an agent for pydantic-ai."""

import asyncio
from typing import Any

from memcore.adapters.protocol import ToolMemory, called, requiring

with requiring("pydantic-ai-slim"):
    from pydantic_ai import RunContext
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

#: Arguments are an object; what is in it the tool itself checks, and says so to the model.
_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))

#: How often a model may send arguments that are no object.
_RETRIES = 1


class MemtendToolset(AbstractToolset[Any]):
    """Give an agent the tools of its memory: search, recall, and what the policy adds.

    ::

        agent = Agent("openai:gpt-5", toolsets=[MemtendToolset(memory, agent_id="oncall")])

    What goes wrong is an answer that begins with ``Error:``, and the run goes on. A run raises MemoryConfigError, and
    MemoryConnectionError when the tools cannot be listed.

    Args:
        memory: a ``Memory``, or what ``Memory.connect`` returns. It stays open.
        agent_id: whose memories the tools read and write; no argument of a model changes it.
        toolset_id: name of this toolset, for durable runs.
        writes: whether tools that change memories are among them.
    """

    def __init__(
        self, memory: ToolMemory, *, agent_id: str, toolset_id: str | None = None, writes: bool = False
    ) -> None:
        self._memory = memory
        self._agent_id = agent_id
        self._toolset_id = toolset_id
        self._writes = writes

    @property
    def id(self) -> str | None:
        """The name that it was given."""
        return self._toolset_id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools by their names."""
        del ctx  # they are the agent's, whatever the run
        tools = await asyncio.to_thread(self._memory.tools, self._agent_id, writes=self._writes)
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
                ),
                max_retries=_RETRIES,
                args_validator=_ARGUMENTS,
            )
            for tool in tools
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        """Answer a call."""
        del ctx, tool
        return await asyncio.to_thread(called, self._memory, self._agent_id, name, tool_args, writes=self._writes)
