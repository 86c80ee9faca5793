"""``MemtendSession`` and ``memory_tools``: the history of a conversation, and tools, for the OpenAI Agents SDK."""

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memcore.adapters.protocol import MemoryLike, ToolMemory, called, forget, listed, requiring, write
from memcore.adapters.values import (
    MAX_VALUE_BYTES,
    NewId,
    as_json,
    checked_length,
    escaped_name,
    kept,
    new_id,
    text_in,
    value_of,
)
from memcore.clock import Clock, utc_now

with requiring("openai-agents"):
    from agents import FunctionTool, Tool
    from agents.memory import SessionSettings
    from agents.memory.session_settings import resolve_session_limit

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.tool_context import ToolContext

#: The first part of the namespaces that sessions are kept in, and the source of their memories.
SOURCE = "openai-agents"

#: The attributes of an item: its session, its place in it, and which part of how many it is.
_SESSION, _PLACE, _PART, _PARTS = "session", "place", "part", "parts"


class MemtendSession:
    """Keep the items of a conversation as keyed memories of an agent; they outlive the process, and searches find them.

    ::

        session = MemtendSession("thread-1", memory=memory, agent_id="oncall")
        await Runner.run(agent, "Payments pages again.", session=session)

    Items come back exactly, of any size, in the order in which they were added. What ``pop_item`` and
    ``clear_session`` take away can be undone. Every call raises what ``Memory`` raises when memtend cannot be reached.

    Args:
        session_id: the conversation's, any text that is kept in at most 240 characters.
        memory: a ``Memory``, or what ``Memory.connect`` returns. It stays open.
        agent_id: whose memories the items are.
        session_settings: the default ``limit`` of ``get_items``.
        category: of the memories.
        project_id: where they are made; agents of level project need it.

    Raises:
        MemoryInputError: the session's id is too long.
    """

    def __init__(
        self,
        session_id: str,
        *,
        memory: MemoryLike,
        agent_id: str,
        session_settings: SessionSettings | None = None,
        category: str = "episodic",
        project_id: str | None = None,
        clock: Clock = utc_now,
        make_id: NewId = new_id,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._memory = memory
        self._agent_id = agent_id
        self._name = escaped_name(session_id)
        self._namespace = checked_length(f"{SOURCE}:{self._name}", "session_id")
        self._category = category
        scope = {"session_id": self._name, "project_id": project_id}
        self._scope = {name: value for name, value in scope.items() if value is not None}
        self._clock = clock
        self._make_id = make_id
        self._last = 0
        self._lock = threading.Lock()

    async def get_items(self, limit: int | None = None) -> "list[TResponseInputItem]":
        """Return the items in order; with a limit, that of the settings if none is given, the last of them."""
        most = resolve_session_limit(limit, self.session_settings)
        items = [item for _, item in await asyncio.to_thread(self._read)]
        if most is None or most < 0:
            return items
        return items[len(items) - min(most, len(items)) :]

    async def add_items(self, items: "list[TResponseInputItem]") -> None:
        """Add items at the end; they can be read when this returns. Raises MemoryInputError for what is not JSON."""
        if items:
            await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> "TResponseInputItem | None":
        """Take the last item away and return it, to one caller only; None when there is none."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Take all items away."""
        await asyncio.to_thread(self._clear)

    def _add(self, items: "Sequence[TResponseInputItem]") -> None:
        with self._lock:
            memories: list[dict[str, Any]] = []
            for item in items:
                memories += self._memories_of(item, self._next_place())
            write(self._memory, self._agent_id, memories, **self._scope)

    def _next_place(self) -> int:
        """Return microseconds since 1970, or the next number where the clock stands or goes back."""
        self._last = max(int(self._clock().timestamp() * 1e6), self._last + 1)
        return self._last

    def _memories_of(self, item: "TResponseInputItem", place: int) -> list[dict[str, Any]]:
        """Return the memories that keep an item: one, or one for each 56 KiB."""
        written = as_json(item)
        name = f"{place:017}-{self._make_id()}"
        attributes = {_SESSION: self._namespace, _PLACE: name}
        if len(written) <= MAX_VALUE_BYTES:
            made = [kept(item, text=_text_of(item), attributes=attributes)]
        else:
            # Each part stands in JSON as a text of its own, with quotes around it and some characters escaped.
            size = MAX_VALUE_BYTES // 2 - 2
            parts = [written[start : start + size] for start in range(0, len(written), size)]
            made = [
                kept(
                    part,
                    text=f"part {number} of {len(parts)}",
                    attributes={**attributes, _PART: number, _PARTS: len(parts)},
                )
                for number, part in enumerate(parts, start=1)
            ]
        return [
            {
                "content": each.content,
                "category": self._category,
                "namespace": self._namespace,
                "key": f"{name}-{number}",
                "attributes": each.attributes,
                "source": SOURCE,
            }
            for number, each in enumerate(made, start=1)
        ]

    def _read(self) -> "list[tuple[list[str], TResponseInputItem]]":
        """Return the items in order, each with the ids of its memories; one that was not written whole is left out."""
        found: dict[str, dict[int, Any]] = {}
        whole: dict[str, int] = {}
        for entry in listed(self._memory, self._agent_id, attributes={_SESSION: self._namespace}):
            name = entry.attributes[_PLACE]
            found.setdefault(name, {})[entry.attributes.get(_PART, 1)] = entry
            whole[name] = entry.attributes.get(_PARTS, 1)
        items: list[tuple[list[str], Any]] = []
        for name, parts in sorted(found.items()):
            self._last = max(self._last, int(name.partition("-")[0]))
            if len(parts) == whole[name]:
                values = [value_of(parts[number]) for number in sorted(parts)]
                item = json.loads("".join(values)) if whole[name] > 1 else values[0]
                items.append(([entry.id for entry in parts.values()], item))
        return items

    def _pop(self) -> "TResponseInputItem | None":
        with self._lock:
            for ids, item in reversed(self._read()):
                # The first part stands for the item: several callers may each take some of its parts.
                if ids[0] in forget(self._memory, self._agent_id, ids):
                    return item
            return None

    def _clear(self) -> None:
        with self._lock:
            self._memory.forget(self._agent_id, namespaces=[self._namespace], attributes={_SESSION: self._namespace})


def _text_of(item: Any) -> str:
    """Return what an item says: of a message its speaker and text, of any other all that is in it."""
    if not isinstance(item, Mapping):
        return text_in(item) or "an item without a text"
    content = item.get("content")
    if isinstance(content, list):
        texts = [each.get("text") for each in content if isinstance(each, Mapping)]
        content = "\n".join(text for text in texts if isinstance(text, str))
    if isinstance(content, str) and content.strip():
        return f"{item.get('role') or 'message'}: {content}"
    return text_in(item) or "an item without a text"


def memory_tools(memory: ToolMemory, *, agent_id: str, writes: bool = False) -> list[Tool]:
    """Return the memory tools of an agent for ``Agent(tools=...)``; with ``writes`` those too that change memories.

    What goes wrong is an answer that begins with ``Error:``, and the run goes on. Raises MemoryConfigError, and
    MemoryConnectionError when the tools cannot be listed.
    """
    return [
        FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=dict(tool.parameters),
            on_invoke_tool=_Call(memory, agent_id, tool.name, writes=writes),
            strict_json_schema=False,
        )
        for tool in memory.tools(agent_id, writes=writes)
    ]


class _Call:
    """Answers the calls of one tool."""

    def __init__(self, memory: ToolMemory, agent_id: str, name: str, *, writes: bool) -> None:
        self._memory = memory
        self._agent_id = agent_id
        self._name = name
        self._writes = writes

    async def __call__(self, _context: "ToolContext[Any]", arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            return "Error: the arguments must be a JSON object."
        return await asyncio.to_thread(called, self._memory, self._agent_id, self._name, given, writes=self._writes)
