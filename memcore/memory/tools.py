"""Tools for agents in the engine's own process, and the model that retrieval may ask there."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger
    from memcore.llm.accounting import AccountedModel
    from memcore.llm.protocol import CompletionProvider
    from memcore.memory.reader import Opened
    from memcore.models.execution import ToolDefinition

Result = TypeVar("Result")


#: Makes the model that retrieval asks, on the account of a ledger; None where no server is named.
OpenModel: TypeAlias = "Callable[[Ledger], AccountedModel | None]"


def opening_model(settings: "Settings", policy: "Policy", *, provider: "CompletionProvider | None" = None) -> OpenModel:
    """Return what makes the model: of ``provider``, or of the server that MEMTEND_LLM_URL names."""

    def open_model(ledger: "Ledger") -> "AccountedModel | None":
        from memcore.llm.accounting import create_model  # noqa: PLC0415  # with the first read, see Reader

        return create_model(settings, policy, ledger, provider=provider)

    return open_model


class ToolCalls:
    """The calls of Memory that give agents tools."""

    def _read(self, call: "Callable[[Opened], Coroutine[Any, Any, Result]]") -> Result:
        """Make a call in the reader's event loop; Memory does it."""
        raise NotImplementedError

    def tools(self, agent_id: str | None = None, *, writes: bool = False) -> "tuple[ToolDefinition, ...]":
        """Return the tools of ``memory.retrieval.strategy``; under ``context``, search_memory and recall_memory.

        With ``writes`` every tool there is: also those of self-editing, add_memory, update_memory, forget_memory. Hand
        a model ``definition.as_openai()`` or ``definition.as_mcp()``. Raises as ``search``.
        """
        del agent_id

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
        return self._read(lambda opened: opened.call_tool(agent_id, name, arguments, writes=writes))
