"""Tools for agents in the engine's own process."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from memcore.memory.reader import Opened
    from memcore.models.execution import ToolDefinition

Result = TypeVar("Result")


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
