"""What every way of handing memories to an agent has in common."""

from typing import Any, Protocol, runtime_checkable

from pydantic import Field

from memcore.chat_message import ChatMessage
from memcore.frozen import Frozen, NotBlankStr


class ToolDefinition(Frozen):
    """A tool that an agent may call.

    Attributes:
        name: letters, digits, underscores and hyphens, as models' interfaces take it.
        description: tells the model when to call it.
        parameters: JSON schema of its arguments.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: NotBlankStr
    parameters: dict[str, Any]


@runtime_checkable
class MemoryInjectionStrategy(Protocol):
    """Make memories available to an agent: as messages before its turn, as tools during it, or both."""

    @property
    def strategy_name(self) -> str:
        """The name that the configuration uses."""
        ...

    async def prepare_messages(self, agent_id: str, query_text: str, token_budget: int) -> tuple[ChatMessage, ...]:
        """Return the messages to inject.

        Args:
            agent_id: who asks.
            query_text: what the coming turn is about.
            token_budget: most tokens of memories and policies together.
        """
        ...

    def get_tool_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that this strategy gives the agent."""
        ...
