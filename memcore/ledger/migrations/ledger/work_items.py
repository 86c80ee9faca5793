"""One table for all work; the cycles of the skill evolver are its first kind."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "ledger_12"
down_revision = "ledger_11"

_MOMENT = sa.DateTime(timezone=True)


def time_of(column: str) -> str:
    """Return the SQL of a time column as text that JSON knows."""
    if is_sqlite():
        return f"replace({column}, ' ', 'T') || 'Z'"
    return f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24\\:MI\\:SS.US\"Z\"')"


def is_sqlite() -> bool:
    """Return whether the database is SQLite."""
    return op.get_bind().dialect.name == "sqlite"


def add_items(kind: str, table: str, *same: str, **columns: Any) -> None:
    """Insert a work item for each row of a table, as :func:`insert_of_items` says."""
    op.execute(insert_of_items(kind, table, *same, **columns))


def insert_of_items(
    kind: str, table: str, *same: str, key: str, payload: Mapping[str, str] | None = None, **columns: str
) -> str:
    """Return the SQL that inserts a work item for each row of a table.

    ``same`` are columns that both have, ``payload`` has the SQL of each field of the message, ``columns`` that of the
    item's other columns, ``created_at`` and ``state`` among them.
    """
    values = {"company": "company", "kind": f"'{kind}'", "key": key, "attempt": "0", "dispatches": "0", **columns}
    values |= {name: name for name in same}
    if payload is not None:
        function, end = ("json_object", "") if is_sqlite() else ("json_build_object", "::text")
        fields = ", ".join(f"'{name}', {sql}" for name, sql in payload.items())
        values["payload"] = f"{function}({fields}){end}"
    # Names and expressions of this folder alone.
    return f"INSERT INTO work_items ({', '.join(values)}) SELECT {', '.join(values.values())} FROM {table}"  # noqa: S608


def drop_columns(table: str, *columns: str, index: str | None = None) -> None:
    """Drop what the work items hold now."""
    if index is not None:
        op.drop_index(index, table)
    for column in columns:
        op.drop_column(table, column)


def upgrade() -> None:
    """Create the table, and make an item of each cycle."""
    op.create_table(
        "work_items",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String),
        sa.Column("lock", sa.String),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("queue", sa.String),
        sa.Column("payload", sa.Text),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("dispatches", sa.Integer, nullable=False),
        sa.Column("token", sa.String),
        sa.Column("reason", sa.String),
        sa.Column("lease_until", _MOMENT),
        sa.Column("dispatch_after", _MOMENT),
        sa.Column("dispatched_at", _MOMENT),
        sa.Column("started_at", _MOMENT),
        sa.Column("finished_at", _MOMENT),
        sa.Column("created_at", _MOMENT, nullable=False),
    )
    op.create_index("work_items_newest", "work_items", ["company", "kind", "created_at"])
    is_open = sa.text("state IN ('available', 'waiting', 'leased')")
    _create_partial("work_items_locked", ["company", "lock"], is_open, unique=True)
    _create_partial("work_items_due", ["dispatch_after"], is_open)
    _move_cycles()


def _create_partial(name: str, columns: list[str], where: sa.TextClause, *, unique: bool = False) -> None:
    op.create_index(name, "work_items", columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _move_cycles() -> None:
    add_items(
        "memory.skills.evolve",
        "skill_cycles",
        key="cycle_id",
        queue="'memory.skills'",
        payload={
            "company": "company",
            "version": "1",
            "cycle_id": "cycle_id",
            "origin": "origin",
            "planned_at": time_of("planned_at"),
        },
        state="CASE WHEN finished_at IS NULL THEN 'available' ELSE 'done' END",
        created_at="planned_at",
        finished_at="finished_at",
        dispatch_after="CASE WHEN finished_at IS NULL THEN rung_at END",
    )
    drop_columns("skill_cycles", "rung_at", "finished_at", index="skill_cycles_open")
