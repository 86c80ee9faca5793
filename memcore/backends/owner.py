"""Who may own a memory, and which ids a memory may have; every backend asks here, so that all of them agree."""

import uuid
from collections.abc import Collection, Iterable

from memcore.errors import MemoryInputError
from memcore.frozen import one_line
from memcore.models import MAX_KEY_CHARS, RESERVED_PREFIX, not_reserved

#: Under whose id shared knowledge is kept, beside the agents' own memories; who published it stands in each of them.
SHARED_OWNER = f"{RESERVED_PREFIX}shared__"

#: Whose publications a search leaves out: one agent's, those of several, or nobody's.
Excluded = str | Collection[str] | None


def require_agent_id(agent_id: str) -> str:
    """Return the agent id, or raise MemoryInputError when it is blank, padded, too long or reserved."""
    if not agent_id or agent_id != agent_id.strip():
        raise MemoryInputError("agent_id", "must not be blank or begin or end with white space")
    if len(agent_id) > MAX_KEY_CHARS:
        raise MemoryInputError("agent_id", f"has {len(agent_id)} characters; the limit is {MAX_KEY_CHARS}")
    try:
        return not_reserved(agent_id)
    except ValueError as error:
        raise MemoryInputError("agent_id", str(error)) from None


def require_new_agent_id(agent_id: str) -> str:
    """Return the id of an agent that writes, or raise MemoryInputError; one that stands may bear control characters."""
    try:
        return one_line(require_agent_id(agent_id))
    except ValueError as error:
        raise MemoryInputError("agent_id", str(error)) from None


def excluded_agents(excluded: Excluded) -> frozenset[str]:
    """Return whose publications a search leaves out; raises what require_agent_id raises."""
    named = (excluded,) if isinstance(excluded, str) else excluded or ()
    return frozenset(require_agent_id(agent_id) for agent_id in named)


def is_memory_id(memory_id: str) -> bool:
    """Return whether a memory can have this id: a UUID in its usual form, as memcore.ids makes them."""
    try:
        return str(uuid.UUID(memory_id)) == memory_id
    except ValueError:
        return False


def memory_ids(ids: Iterable[str]) -> list[str]:
    """Return those that a memory can have, each once, in order; no memory has any of the others."""
    return [memory_id for memory_id in dict.fromkeys(ids) if is_memory_id(memory_id)]


def require_memory_id(memory_id: str) -> str:
    """Return the id of a memory to be written, or raise MemoryInputError when it is no UUID."""
    if not is_memory_id(memory_id):
        raise MemoryInputError("id", "must be a UUID in lower case with hyphens, as memcore.ids makes them")
    return memory_id
