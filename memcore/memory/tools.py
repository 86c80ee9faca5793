"""Tools for agents in the engine's own process, and what they need beside the store: a ledger and a model."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger
    from memcore.llm.accounting import AccountedModel
    from memcore.llm.protocol import CompletionProvider
    from memcore.memory.reader import Opened
    from memcore.retrieval.protocol import ToolDefinition

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineServices:
    """What strategies need beside the store, in the event loop in which it is used.

    Attributes:
        model: None where neither MEMTEND_LLM_URL nor a provider is given; agents pay for it from their budgets.
    """

    company: str
    ledger: "Ledger"
    model: "AccountedModel | None"

    async def close(self) -> None:
        """Close the connections to the model's server and to the ledger."""
        try:
            if self.model is not None:
                await self.model.close()
        finally:
            self.ledger.close()


#: Makes the services; nothing is connected before they are used.
OpenServices: TypeAlias = Callable[[], EngineServices]


def open_services(
    settings: "Settings", policy: "Policy", *, provider: "CompletionProvider | None" = None
) -> EngineServices:
    """Return the services of a stack; ``provider`` is asked instead of the server that MEMTEND_LLM_URL names.

    Raises MemoryConfigError.
    """
    # With the first read: an engine that only stores needs neither of both libraries.
    from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # see above
    from memcore.llm.accounting import create_model  # noqa: PLC0415  # see above

    ledger = Ledger.open(settings.ledger_urls)
    return EngineServices(
        company=settings.company, ledger=ledger, model=create_model(settings, policy, ledger, provider=provider)
    )


class ToolCalls:
    """The calls of Memory that give agents tools."""

    def _read(self, call: "Callable[[Opened], Coroutine[Any, Any, Result]]") -> Result:
        """Make a call in the reader's event loop; Memory does it."""
        raise NotImplementedError

    def tools(self, *, writes: bool = False) -> "tuple[ToolDefinition, ...]":
        """Return the tools of ``memory.retrieval.strategy``; under ``context``, search_memory and recall_memory.

        With ``writes`` every tool there is: also those of self-editing, add_memory, update_memory, forget_memory. Hand
        a model ``definition.as_openai()`` or ``definition.as_mcp()``. Raises as ``search``.
        """

        async def defined(opened: "Opened") -> "tuple[ToolDefinition, ...]":
            return opened.tools(writes=writes).definitions()

        return self._read(defined)

    def call_tool(
        self, agent_id: str, name: str, arguments: Mapping[str, Any] | str | None = None, *, writes: bool = False
    ) -> str:
        """Call a tool as a model asks for it, and return the text for the model; ``writes`` as for ``tools``.

        The arguments are a mapping, or the JSON text that the model wrote. What goes wrong is a text that begins with
        ``Error:``. Raises MemoryConnectionError and MemoryConfigError when the store cannot be opened at all.
        """
        return self._read(lambda opened: opened.tools(writes=writes).call(agent_id, name, arguments))
