"""The databases that a release left behind on SQLite, copied to PostgreSQL as that release would have them there."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import JSON, Boolean, DateTime, MetaData, create_engine

from memcore.config.urls import LedgerUrls
from memcore.ledger.migrate import migrate, migrate_history


def copy_to_postgresql(folder: Path, url: str) -> None:
    """Make the tables of the release that left files in a folder, and copy their rows; stock mem0 has no table."""
    with pytest.MonkeyPatch.context() as patch:
        upgrade = command.upgrade
        patch.setattr(command, "upgrade", lambda config, _head: upgrade(config, _revision(folder, config)))
        migrate(LedgerUrls(ledger=url, journal=url))
        migrate_history(url)
    for tree in ("ledger", "journal", "history"):
        _copy(folder / f"{tree}.db", url)


def _revision(folder: Path, config: Any) -> str:
    tree = config.attributes["tree"]
    with closing(sqlite3.connect(folder / f"{tree}.db")) as connection:
        found: str = connection.execute(f"SELECT version_num FROM alembic_version_{tree}").fetchone()[0]  # noqa: S608  # ours
    return found


def _copy(file: Path, url: str) -> None:
    engine, metadata = create_engine(url), MetaData()
    metadata.reflect(engine)
    with closing(sqlite3.connect(file)) as source, engine.begin() as target:
        source.row_factory = sqlite3.Row
        theirs = {name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in metadata.sorted_tables:
            if table.name in theirs and not table.name.startswith("alembic"):
                rows = [
                    {column.name: _value(row[column.name], column.type) for column in table.columns}
                    for row in source.execute(f"SELECT * FROM {table.name}")  # noqa: S608  # ours
                ]
                if rows:
                    target.execute(table.insert(), rows)
    engine.dispose()


def _value(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, DateTime):
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at
    if isinstance(kind, JSON):
        return json.loads(value)
    return bool(value) if isinstance(kind, Boolean) else value
