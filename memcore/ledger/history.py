"""mem0's history table, column by column as mem0 2.2.1 makes it, so that either program can open the other's file."""

from typing import Any

from sqlalchemy import Column, Index, Integer, MetaData, Table, Text
from sqlalchemy.types import UserDefinedType

metadata = MetaData()


class _DateTimeText(UserDefinedType[str]):
    """Text in a column that SQLite declares as DATETIME: mem0 writes ISO strings there and reads them back."""

    cache_ok = True

    def get_col_spec(self, **_options: Any) -> str:
        """Return the declared type."""
        return "DATETIME"


def _time_text() -> Text:
    return Text().with_variant(_DateTimeText(), "sqlite")


history = Table(
    "history",
    metadata,
    Column("id", Text, primary_key=True),
    Column("memory_id", Text),
    Column("old_memory", Text),
    Column("new_memory", Text),
    Column("event", Text),
    Column("created_at", _time_text()),
    Column("updated_at", _time_text()),
    Column("is_deleted", Integer),
    Column("actor_id", Text),
    Column("role", Text),
    # mem0 has no index: without one, erasing a memory's history reads the history of all of them.
    Index("history_memory_id", "memory_id"),
)
