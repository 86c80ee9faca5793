"""LangGraph: the rows of a store's table, from its SQLite file or as JSON lines of its PostgreSQL table."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memcore.errors import MemoryInputError
from memcore.importers.documents import (
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
from memcore.importers.fields import present, time_of

#: The table of the store, and the columns without which it is another one.
_TABLE, _COLUMNS = "store", frozenset({"prefix", "key", "value"})

#: Under which a list of rows stands, if not alone.
_LISTS = frozenset({"rows", "items", _TABLE})

#: Fields of a value that hold its text, where it has one: the first that is there.
_TEXTS = ("content", "text", "memory", "data", "fact")


def read(path: Path) -> Iterator[Found]:
    """Yield the rows of a store. Raises MemoryInputError when the file holds none."""
    if is_sqlite(path):
        with database(path) as connection:
            yield from _rows(connection)
        return
    is_line_each = is_lines(path, _LISTS)
    with opened(path) as file:
        yield from lines(file) if is_line_each else values(file, _is_row)


def fields(found: Found) -> dict[str, Any] | None:
    """Return a row as the fields of an import record: the value is its text, and an attribute of that name."""
    row = mapping_of(found.value)
    if not row:
        raise MemoryInputError("record", "must be an object")
    value = mapping_of(row.get("value"))
    if not value:
        raise MemoryInputError("value", "must be an object")
    prefix = row.get("prefix", row.get("namespace"))
    return {
        "category": "semantic",
        # A namespace of LangGraph's API is a list; its table has it joined.
        "namespace": ".".join(map(str, prefix)) if isinstance(prefix, list) else prefix or "default",
        "key": row.get("key"),
        "content": _text(value),
        "metadata": {"source": "langgraph"},
        "attributes": {"value": dict(value)},
        **present(
            created_at=time_of(row.get("created_at"), field="created_at"),
            expires_at=time_of(row.get("expires_at"), field="expires_at"),
        ),
    }


def _text(value: Mapping[str, Any]) -> str:
    found = next((value[name] for name in _TEXTS if text_of(value.get(name))), None)
    return found or json.dumps(value, ensure_ascii=False, sort_keys=True)


def _is_row(place: Place) -> bool:
    match place:
        case (int(),):
            return True
        case (str(name), int()):
            return name in _LISTS
        case _:
            return False


def _rows(connection: sqlite3.Connection) -> Iterator[Found]:
    if _TABLE not in tables(connection) or not columns(connection, _TABLE) >= _COLUMNS:
        raise MemoryInputError("file", "has no table store with the columns prefix, key and value")
    for number, row in enumerate(connection.execute("SELECT * FROM store ORDER BY created_at, prefix, key"), start=1):
        yield Found(number=number, value=dict(row))
