"""Zep and Graphiti: exports of facts (edges of the graph) and episodes, as a document or as JSON lines."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memcore.errors import MemoryInputError
from memcore.importers.documents import Found, listed, mapping_of, text_of
from memcore.importers.fields import attributes_of, only, present, time_of

#: Under which keys exports hold facts and episodes.
_LISTS = frozenset({"edges", "facts", "episodes", "messages", "results"})


def read(path: Path) -> Iterator[Found]:
    """Return facts and episodes. Raises MemoryInputError when the file cannot be read."""
    return listed(path, _LISTS)


def fields(found: Found) -> dict[str, Any] | None:
    """Return a fact or an episode as the fields of an import record; None for a node, which says nothing alone."""
    item = mapping_of(found.value)
    if not item:
        raise MemoryInputError("record", "must be an object")
    if "fact" in item:
        return _fact(item)
    if "content" in item:
        return _episode(item)
    if "name" in item:
        return None
    raise MemoryInputError("record", "is neither a fact nor an episode")


def _fact(item: Mapping[str, Any]) -> dict[str, Any]:
    since = time_of(item.get("valid_at"), field="valid_at")
    until = time_of(item.get("invalid_at"), field="invalid_at") or time_of(item.get("expired_at"), field="expired_at")
    if since is not None and until is not None and until <= since:
        # The graph may learn late that a fact never held: its end is known, its beginning is not.
        since = None
    return {
        "category": "semantic",
        "content": item["fact"],
        "metadata": {"source": "zep"},
        "attributes": attributes_of(
            only(item, "name", "source_node_uuid", "target_node_uuid"),
            mapping_of(item.get("attributes")),
        ),
        **present(created_at=time_of(item.get("created_at"), field="created_at"), valid_from=since, valid_until=until),
    }


def _episode(item: Mapping[str, Any]) -> dict[str, Any]:
    # When it happened, where that is known beside when it was written down.
    at = time_of(item.get("valid_at"), field="valid_at") or time_of(item.get("created_at"), field="created_at")
    return {
        "category": "episodic",
        "content": item["content"],
        "metadata": {"source": "zep"},
        "attributes": attributes_of(
            only(item, "role", "role_type", "name", "source", "source_description"),
            mapping_of(item.get("metadata")),
        ),
        **present(session_id=text_of(item.get("session_id") or item.get("thread_id")), created_at=at),
    }
