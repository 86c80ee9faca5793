"""mem0: the answer of ``get_all``, dumps of its Qdrant collection, its local Qdrant folder, and its history."""

import io
import pickle
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memcore.errors import MemoryInputError
from memcore.importers.documents import (
    MAX_VALUE_BYTES,
    Found,
    Place,
    columns,
    database,
    is_lines,
    is_sqlite,
    lines,
    mapping_of,
    opened,
    tables,
    text_of,
    values,
)
from memcore.importers.fields import attributes_of, labels_of, only, present, time_of, without

#: The keys under which mem0's answers, and Qdrant's, hold their lists.
_LISTS = frozenset({"results", "memories", "points"})

#: What mem0 keeps beside the metadata of a caller.
_OWN = (
    "id", "memory", "data", "text", "hash", "created_at", "updated_at", "user_id", "agent_id", "run_id", "app_id",
    "metadata", "expiration_date", "memory_type", "text_lemmatized", "score", "score_details", "owner", "organization",
    "immutable", "structured_attributes", "categories",
)  # fmt: skip

#: Under which of them the text stands.
_TEXTS = ("memory", "data", "text")

#: mem0's memory type for how things are done.
_PROCEDURAL = "procedural_memory"

#: The last event of each memory that was not deleted, and when its first was.
_HISTORY = """
    SELECT memory_id, new_memory, role, actor_id, started FROM (
        SELECT memory_id, new_memory, event, is_deleted, role, actor_id,
            min(created_at) OVER (PARTITION BY memory_id) AS started,
            row_number() OVER (
                PARTITION BY memory_id ORDER BY coalesce(updated_at, created_at) DESC, rowid DESC) AS back
        FROM history)
    WHERE back = 1 AND event <> 'DELETE' AND coalesce(is_deleted, 0) = 0 ORDER BY started, memory_id
"""


def read(path: Path) -> Iterator[Found]:
    """Yield what a file or a folder of mem0's holds. Raises MemoryInputError when it is none of them."""
    if path.is_dir():
        yield from _folder(path)
    elif is_sqlite(path):
        yield from _database(path)
    elif is_lines(path, _LISTS):
        with opened(path) as file:
            yield from lines(file)
    else:
        with opened(path) as file:
            yield from values(file, _is_memory)


def fields(found: Found) -> dict[str, Any] | None:
    """Return one of mem0's memories as the fields of an import record, without its agent's if it has none."""
    item = mapping_of(found.value)
    if not item:
        raise MemoryInputError("record", "must be an object")
    payload = {**without(item, "payload", "vector"), **mapping_of(item.get("payload"))}
    texts = [payload[name] for name in _TEXTS if payload.get(name) is not None]
    if not texts:
        raise MemoryInputError("record", f"has none of {', '.join(_TEXTS)}: is it one of mem0's memories?")
    metadata = mapping_of(payload.get("metadata"))
    return {
        "category": "procedural" if payload.get("memory_type") == _PROCEDURAL else "semantic",
        "content": next(filter(None, texts), texts[0]),
        "metadata": {"source": "mem0", "tags": labels_of(payload.get("categories"))},
        "attributes": attributes_of(only(payload, "user_id", "app_id"), without(payload, *_OWN), metadata),
        **present(
            agent_id=text_of(payload.get("agent_id")),
            session_id=text_of(payload.get("run_id")),
            created_at=time_of(payload.get("created_at"), field="created_at"),
            expires_at=time_of(payload.get("expiration_date"), field="expires_at"),
        ),
    }


def _is_memory(place: Place) -> bool:
    match place:
        case (int(),) | (str(), int()) | (str(), str(), int()):
            names = [each for each in place if isinstance(each, str)]
            return not names or names[-1] in _LISTS
        case _:
            return False


def _folder(path: Path) -> Iterator[Found]:
    """Yield the points of each collection of a local Qdrant folder; the numbers run on."""
    stores = sorted(path.glob("collection/*/storage.sqlite")) or sorted(path.glob("storage.sqlite"))
    if not stores:
        raise MemoryInputError("file", "is a folder without a local Qdrant collection")
    number = 0
    for store in stores:
        for found in _database(store):
            number += 1
            yield Found(number=number, value=found.value, problem=found.problem)


def _database(path: Path) -> Iterator[Found]:
    with database(path) as connection:
        known = tables(connection)
        if "history" in known and "new_memory" in columns(connection, "history"):
            yield from _history(connection)
        elif "points" in known:
            yield from _points(connection)
        else:
            raise MemoryInputError("file", "is neither mem0's history nor a local Qdrant collection")


def _history(connection: sqlite3.Connection) -> Iterator[Found]:
    for number, row in enumerate(connection.execute(_HISTORY), start=1):
        item = {
            "id": row["memory_id"],
            "memory": row["new_memory"],
            "created_at": row["started"],
            "metadata": present(role=row["role"], actor_id=row["actor_id"]),
        }
        yield Found(number=number, value=item)


def _points(connection: sqlite3.Connection) -> Iterator[Found]:
    for number, (point,) in enumerate(connection.execute("SELECT point FROM points ORDER BY rowid"), start=1):
        if len(point) > MAX_VALUE_BYTES:
            yield Found(number=number, problem=MemoryInputError("point", f"has more than {MAX_VALUE_BYTES} bytes"))
            continue
        try:
            state = _state(_Unpickler(io.BytesIO(point)).load())
            yield Found(number=number, value={"id": str(state["id"]), "payload": state.get("payload") or {}})
        except Exception:  # noqa: BLE001  # broken pickles raise anything, and the next point goes on
            yield Found(number=number, problem=MemoryInputError("point", "cannot be read"))


class _Inert:
    """Stands for every class of a pickled point: it takes the point's fields, and runs none of the class's code."""

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):  # noqa: S301  # it finds no class but _Inert
    """Reads a point without importing or calling what its bytes name."""

    def find_class(self, module_name: str, global_name: str, /) -> type[_Inert]:
        if module_name.startswith("qdrant_client.") and global_name.isidentifier():
            return _Inert
        raise pickle.UnpicklingError("a point names what no point has")


def _state(point: object) -> Mapping[str, Any]:
    """Return the fields of a pickled point: pydantic keeps them in the ``__dict__`` of its state."""
    state = point.state if isinstance(point, _Inert) else None
    held = state.get("__dict__", state) if isinstance(state, dict) else None
    if not isinstance(held, dict):
        raise MemoryInputError("point", "cannot be read")
    return held
