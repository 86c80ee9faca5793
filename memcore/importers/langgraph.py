"""LangGraph: the rows of a store's table, from its SQLite file or as JSON lines of its PostgreSQL table.

They become what ``MemtendStore`` writes, so that a graph goes on with it where its store ended.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memcore.adapters.values import checked_length, escaped_name, kept, text_in
from memcore.errors import MemoryInputError
from memcore.importers.documents import Found, columns, database, is_sqlite, listed, mapping_of, tables
from memcore.importers.fields import present, time_of

#: The table of the store, and the columns without which it is another one.
_TABLE, _COLUMNS = "store", frozenset({"prefix", "key", "value"})

#: Under which a list of rows stands, if not alone.
_LISTS = frozenset({"rows", "items", _TABLE})

#: The root of a MemtendStore that names no other.
_ROOT = "langgraph"


def read(path: Path) -> Iterator[Found]:
    """Yield the rows of a store. Raises MemoryInputError when the file holds none."""
    if is_sqlite(path):
        with database(path) as connection:
            yield from _rows(connection)
    else:
        yield from listed(path, _LISTS)


def fields(found: Found) -> dict[str, Any] | None:
    """Return a row as the fields of an import record: those of an item of MemtendStore, under its usual root."""
    row = mapping_of(found.value)
    if not row:
        raise MemoryInputError("record", "must be an object")
    value, key, prefix = mapping_of(row.get("value")), row.get("key"), row.get("prefix", row.get("namespace"))
    if not value:
        raise MemoryInputError("value", "must be an object")
    if not isinstance(key, str):
        raise MemoryInputError("key", "must be a text")
    # A namespace of LangGraph's API is a list; its table has it joined.
    labels = [str(each) for each in prefix] if isinstance(prefix, list) else str(prefix or "").split(".")
    attributes: dict[str, Any] = {
        "store": _ROOT,
        "labels": {str(place): escaped_name(label) for place, label in enumerate(labels)},
        "indexed": True,
        **present(ttl=_minutes(row.get("ttl_minutes"))),
    }
    created = time_of(row.get("created_at"), field="created_at")
    made = kept(dict(value), text=text_in(value) or f"item {key}", attributes=attributes)
    return {
        "category": "semantic",
        "namespace": checked_length(".".join([_ROOT, *map(escaped_name, labels)]), "namespace"),
        "key": checked_length(escaped_name(key), "key"),
        "content": made.content,
        "metadata": {"source": _ROOT},
        "attributes": made.attributes,
        **present(created_at=created, expires_at=time_of(row.get("expires_at"), field="expires_at")),
    }


def _minutes(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _rows(connection: sqlite3.Connection) -> Iterator[Found]:
    if _TABLE not in tables(connection) or not columns(connection, _TABLE) >= _COLUMNS:
        raise MemoryInputError("file", "has no table store with the columns prefix, key and value")
    for number, row in enumerate(connection.execute("SELECT * FROM store ORDER BY created_at, prefix, key"), start=1):
        yield Found(number=number, value=dict(row))
