"""``MemtendToolset``: the memory tools of an agent for pydantic-ai."""

import asyncio
from typing import Any

from memcore.adapters.protocol import ToolMemory, requiring
from memcore.errors import MemoryConfigError, MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name

with requiring("pydantic-ai-slim"):
    from pydantic_ai import ModelRetry, RunContext
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

#: Arguments are an object; what is in it the tool itself checks, and says so to the model.
_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))


class MemtendToolset(AbstractToolset[Any]):
    """Give an agent the tools of its memory: search, recall, and what the policy adds.

    ::

        agent = Agent("openai:gpt-5", toolsets=[MemtendToolset(memory, agent_id="oncall")])

    An argument that breaks a limit is sent back to the model, which tries again. Memory that cannot be reached becomes
    an answer that the model reads; the run goes on.

    Args:
        memory: a ``Memory``, or what ``Memory.connect`` returns. It stays open.
        agent_id: whose memories the tools read and write; no argument of a model changes it.
        toolset_id: name of this toolset, for durable runs.
        max_retries: how often a model may correct the arguments of a call.
    """

    def __init__(
        self, memory: ToolMemory, *, agent_id: str, toolset_id: str | None = None, max_retries: int = 1
    ) -> None:
        self._memory = memory
        self._agent_id = agent_id
        self._toolset_id = toolset_id
        self._max_retries = max_retries

    @property
    def id(self) -> str | None:
        """The name that it was given."""
        return self._toolset_id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools by their names."""
        del ctx  # they are the agent's, whatever the run
        tools = await asyncio.to_thread(self._memory.tools, self._agent_id)
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
                ),
                max_retries=self._max_retries,
                args_validator=_ARGUMENTS,
            )
            for tool in tools
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        """Answer a call. Raises ModelRetry when the model is to correct its arguments."""
        del ctx, tool
        try:
            return await asyncio.to_thread(self._memory.call_tool, self._agent_id, name, tool_args)
        except MemoryInputError as error:
            raise ModelRetry(str(error)) from error
        except MemoryConfigError:
            raise
        except MemoryError as error:
            return f"Error: memory cannot be used now ({type(error).__name__})."
