"""Letta: agent files (``.af``), of one agent or of several, and lists of archival passages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memcore.errors import MemoryInputError
from memcore.importers.documents import Found, Place, is_lines, lines, mapping_of, opened, text_of, values
from memcore.importers.fields import attributes_of, labels_of, only, present, time_of

#: Under which keys the parts of an agent's memory stand, in the file or in one of its agents.
_BLOCKS = frozenset({"blocks", "core_memory", "memory_blocks"})
_PASSAGES = frozenset({"passages", "archival_memory", "archival_passages"})
_MESSAGES = frozenset({"messages"})
_PARTS = _BLOCKS | _PASSAGES | _MESSAGES

#: What is read of an agent before its memory.
_ABOUT = frozenset({"id", "name", "block_ids"})

#: The tag of what an agent always has before it, as the self-editing strategy names it.
_CORE_TAG = "core"

#: Whose messages are kept: those of the system and of tools are no memory.
_SPEAKERS = ("user", "assistant")


@dataclass(kw_only=True)
class _Agent:
    name: str | None = None
    id: str | None = None
    block_ids: list[str] = field(default_factory=list)


def read(path: Path) -> Iterator[Found]:
    """Yield blocks, passages and messages with their agents. Raises MemoryInputError when the file cannot be read."""
    if is_lines(path, {"agents", *_PARTS}):
        with opened(path) as file:
            for found in lines(file):
                yield replace(found, value={"kind": "passages", "agent": None, "item": found.value})
        return
    # Twice: agents stand before the blocks that they share, and say which.
    agents = _agents(path)
    number = 0
    with opened(path) as file:
        for found in values(file, _is_part):
            for agent in _owners(found, agents):
                number += 1
                kind = next((each for each in found.place[::-1] if isinstance(each, str)), "passages")
                yield replace(found, number=number, value={"kind": kind, "agent": agent, "item": found.value})


def fields(found: Found) -> dict[str, Any] | None:
    """Return a part of an agent's memory as the fields of an import record; None for what holds no memory."""
    item, kind = mapping_of(found.value["item"]), found.value["kind"]
    if not item:
        raise MemoryInputError("record", "must be an object")
    made = _block(item) if kind in _BLOCKS else _message(item) if kind in _MESSAGES else _passage(item)
    return made and {
        **made,
        **present(
            agent_id=text_of(found.value["agent"]), created_at=time_of(item.get("created_at"), field="created_at")
        ),
    }


def _block(item: Mapping[str, Any]) -> dict[str, Any] | None:
    if text_of(item.get("value")) is None:
        return None
    return {
        "category": "semantic",
        "key": item.get("label"),
        "content": item["value"],
        "metadata": {"source": "letta", "tags": (_CORE_TAG,)},
        "attributes": attributes_of(only(item, "label", "description", "read_only")),
    }


def _passage(item: Mapping[str, Any]) -> dict[str, Any]:
    if "text" not in item and "content" not in item:
        raise MemoryInputError("record", "has neither text nor content: is it one of letta's passages?")
    return {
        "category": "semantic",
        "content": item.get("text", item.get("content")),
        "metadata": {"source": "letta", "tags": labels_of(item.get("tags"))},
        "attributes": attributes_of(mapping_of(item.get("metadata") or item.get("metadata_"))),
    }


def _message(item: Mapping[str, Any]) -> dict[str, Any] | None:
    role = item.get("role")
    text = _said(item) if role in _SPEAKERS else None
    if text is None:
        return None
    return {
        "category": "episodic",
        "content": text,
        "metadata": {"source": "letta"},
        "attributes": {"role": role},
    }


def _said(item: Mapping[str, Any]) -> str | None:
    """Return what a person or an agent said; None for a message of the machinery."""
    for call in item.get("tool_calls") or ():
        # An agent speaks through a tool; the text beside it is what it thinks.
        function = mapping_of(mapping_of(call).get("function"))
        if function.get("name") == "send_message":
            return text_of(mapping_of(function.get("arguments")).get("message"))
    content = item.get("content", item.get("text"))
    if isinstance(content, list):
        content = "\n".join(part for each in content if (part := text_of(mapping_of(each).get("text"))))
    wrapped = mapping_of(content)
    if "type" in wrapped:
        return text_of(wrapped.get("message")) if wrapped["type"] == "user_message" else None
    return text_of(content)


def _agents(path: Path) -> dict[int | None, _Agent]:
    """Return the agents of a file by their place in it; None is the agent that the whole file is."""
    agents: dict[int | None, _Agent] = {None: _Agent()}
    with opened(path) as file:
        for found in values(file, _is_about):
            match found.place:
                case ("agents", int(number), str(name)):
                    setattr(agents.setdefault(number, _Agent()), name, found.value)
                case ("name",):
                    agents[None].name = text_of(found.value)
    return agents


def _owners(found: Found, agents: Mapping[int | None, _Agent]) -> list[str | None]:
    """Return the names of the agents that a part belongs to."""
    match found.place:
        case ("agents", int(number), *_):
            return [agents[number].name if number in agents else None]
        case _:
            pass
    item = mapping_of(found.value)
    owner, own = item.get("agent_id"), item.get("id")
    several = [each for number, each in agents.items() if number is not None]
    named = [
        each.name
        for each in several
        if (owner is not None and each.id == owner) or (own is not None and own in (each.block_ids or ()))
    ]
    return list(named or [several[0].name if len(several) == 1 else agents[None].name])


def _is_about(place: Place) -> bool:
    match place:
        case ("name",):
            return True
        case ("agents", int(), str(name)):
            return name in _ABOUT
        case _:
            return False


def _is_part(place: Place) -> bool:
    match place:
        case (int(),):
            return True
        case (str(name), int()) | ("agents", int(), str(name), int()):
            return name in _PARTS
        case _:
            return False
