"""The tools of an agent: what `memcore.retrieval.strategies` defines, bound to the agent that the session names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mcp import types

from memcore.models.execution import ToolDefinition
from memcore.models.origin import ENGINE, Writer, writing_as
from memcore.retrieval.strategies.tools import ERROR
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive
from ops.mcp.results import text_result

#: What a host puts before a model that may call these tools.
INSTRUCTIONS = (
    "Long-term memory of one agent: search it before you answer from memory, and keep what later tasks need. "
    + untrusted_content_directive(TAG_MEMORY_ENTRY)
)


class AgentEngine(Protocol):
    """What carries out the calls of agents' tools: ``AsyncMemory``."""

    async def tools(self, *, writes: bool = False) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the tools; raises MemoryConnectionError, MemoryConfigError."""
        ...

    async def call_tool(
        self, agent_id: str, name: str, arguments: Mapping[str, Any] | str | None = None, *, writes: bool = False
    ) -> str:
        """Return text for the agent's model, memories in fences; text that begins with ``Error:`` where it fails."""
        ...


@dataclass(frozen=True, kw_only=True)
class AgentToolset:
    """The tools of one agent in one session.

    Args:
        engine: carries out the calls.
        agent_id: whose memories, from the URL or the command line; no argument of a call can name another.
        definitions: the tools that the session may call.
        writer: whose is what the calls write.
    """

    engine: AgentEngine
    agent_id: str
    definitions: tuple[ToolDefinition, ...]
    writer: Writer = ENGINE

    @classmethod
    async def open(
        cls,
        engine: AgentEngine,
        agent_id: str,
        *,
        may_read: bool = True,
        may_write: bool = True,
        writer: Writer = ENGINE,
    ) -> "AgentToolset":
        """Return the tools that a key of these verbs may call.

        Raises MemoryConnectionError when the store does not answer; MemoryConfigError when the policy asks for a model
        and the settings name none.
        """
        known = await engine.tools(writes=True)
        allowed = tuple(each for each in known if (may_read if each.read_only else may_write))
        return cls(engine=engine, agent_id=agent_id, definitions=allowed, writer=writer)

    def tools(self) -> tuple[types.Tool, ...]:
        """Return the tools that the session may call."""
        return tuple(map(_tool, self.definitions))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Carry out a call; what goes wrong stands in the result, which is marked as an error then."""
        # The SDK carries out calls in a task of its own, which knows nothing of the request's writer.
        with writing_as(self.writer):
            text = await self.engine.call_tool(self.agent_id, name, arguments, writes=True)
        result = text_result(text)
        # Memories stand in fences, so none of them can begin a result like this.
        return result.model_copy(update={"is_error": True}) if text.startswith(ERROR) else result


def _tool(definition: ToolDefinition) -> types.Tool:
    return types.Tool(
        name=definition.name,
        description=definition.description,
        input_schema=definition.parameters,
        annotations=types.ToolAnnotations(
            read_only_hint=definition.read_only,
            destructive_hint=definition.destructive,
            # A memory is named by its content: written twice, it is there once; forgotten twice, it is gone once.
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
