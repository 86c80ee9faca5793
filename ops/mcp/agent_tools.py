"""The tools of an agent: what `memcore.retrieval.strategies` defines, bound to the agent that the session names."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from mcp import types

from memcore.llm.accounting import create_model
from memcore.memories import Memories
from memcore.models.execution import ToolDefinition
from memcore.retrieval.strategies.factory import StrategyParts, create_agent_tools
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive
from ops.mcp.results import text_result

if TYPE_CHECKING:
    from memcore.service import MemoryService

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
        """Return the tools."""
        ...

    async def call(self, agent_id: str, name: str, arguments: Mapping[str, Any]) -> str:
        """Return text for the agent's model, memories in fences; text that begins with ``Error:`` where it fails."""
        ...


class AgentToolSource:
    """Makes the tools of each company's agents once, with the language model that its settings name.

    It closes the models when its block ends; whoever opened the services closes those.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[MemoryService, AgentCalls]] = {}
        self._opened = AsyncExitStack()

    async def of(self, service: "MemoryService") -> AgentCalls:
        """Return the tools of a company's agents.

        Raises MemoryConnectionError when the store does not answer; MemoryConfigError when the policy asks for a model
        and the settings name none.
        """
        backend = await service.resources.backend()
        owner, calls = self._made.get(service.company, (None, None))
        if calls is None or owner is not service:
            settings, policy, ledger, clock = service.resources.settings, service.policy, service.ledger, service.clock
            model = create_model(settings, policy, ledger, clock=clock)
            if model is not None:
                self._opened.push_async_callback(model.close)
            parts = StrategyParts(
                policy=policy,
                backend=backend,
                company=service.company,
                changes=Memories(backend, ledger, company=service.company, policy=policy, clock=clock),
                model=model,
                ledger=ledger,
                clock=clock,
            )
            calls = create_agent_tools(parts)
            self._made[service.company] = service, calls
        return calls

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._made.clear()
        await self._opened.aclose()


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
