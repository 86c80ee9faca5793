"""The tools of an agent: what `memcore.retrieval.strategies` defines, bound to the agent that the session names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mcp import types

from memcore.retrieval.protocol import ToolDefinition
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive
from ops.mcp.results import text_result

#: What a host puts before a model that may call these tools.
INSTRUCTIONS = (
    "Long-term memory of one agent: search it before you answer from memory, and keep what later tasks need. "
    + untrusted_content_directive(TAG_MEMORY_ENTRY)
)

#: How the tools of strategies say that a call failed.
_FAILED = "Error:"


class AgentCalls(Protocol):
    """The definitions of an agent's tools, and what carries them out."""

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the policy allows."""
        ...

    async def call(self, agent_id: str, name: str, arguments: Mapping[str, Any]) -> str:
        """Return text for the agent's model, memories in fences; text that begins with ``Error:`` where it fails."""
        ...


@dataclass(frozen=True, kw_only=True)
class AgentToolset:
    """The tools of one agent in one session.

    Args:
        calls: definitions and implementation.
        agent_id: whose memories, from the URL or the command line; no argument of a call can name another.
        may_read, may_write: what the session's key allows; tools beyond it are neither listed nor callable.
    """

    calls: AgentCalls
    agent_id: str
    may_read: bool = True
    may_write: bool = True

    def tools(self) -> tuple[types.Tool, ...]:
        """Return the tools that the session may call."""
        return tuple(_tool(each) for each in self.calls.definitions() if self._may(each))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Carry out a call; what goes wrong stands in the result, which is marked as an error then."""
        text = await self.calls.call(self.agent_id, name, arguments)
        result = text_result(text)
        # Memories stand in fences, so none of them can begin a result like this.
        return result.model_copy(update={"is_error": True}) if text.startswith(_FAILED) else result

    def _may(self, definition: ToolDefinition) -> bool:
        return self.may_read if definition.read_only else self.may_write


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
