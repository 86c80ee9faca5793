"""One history file, two programs: stock mem0's own storage and the ledger's table."""

import sqlite3
from contextlib import closing
from pathlib import Path

from mem0.memory.storage import SQLiteManager
from sqlalchemy import create_engine, inspect, select

from memcore.ledger.migrate import migrate_history
from memcore.ledger.tables import history


def test_stock_mem0_opens_the_migrated_file_and_reads_what_we_wrote(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    migrate_history(f"sqlite:///{path}")
    engine = create_engine(f"sqlite:///{path}")
    written = {
        "id": "h1",
        "memory_id": "m1",
        "old_memory": None,
        "new_memory": "naïve café",
        "event": "ADD",
        "created_at": "2026-03-01T12:00:00.123456+00:00",
        "updated_at": None,
        "is_deleted": 0,
        "actor_id": None,
        "role": "user",
    }
    with engine.begin() as connection:
        connection.execute(history.insert(), [written])
    with closing(SQLiteManager(str(path))) as stock:
        assert stock.get_history("m1") == [{**written, "is_deleted": False}]
        stock.add_history("m1", "naïve café", "new", "UPDATE", created_at="2026-03-02T00:00:00+00:00", is_deleted=1)
    with engine.connect() as connection:
        rows = connection.execute(select(history).order_by(history.c.created_at)).mappings().all()
    engine.dispose()
    assert dict(rows[0]) == written
    assert (rows[1]["new_memory"], rows[1]["created_at"], rows[1]["is_deleted"]) == (
        "new",
        "2026-03-02T00:00:00+00:00",
        1,
    )


def _columns(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA table_info(history)").fetchall()


def test_a_file_that_stock_mem0_made_keeps_its_rows_and_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(SQLiteManager(str(path))) as stock:
        stock.add_history("m1", None, "first", "ADD", created_at="2026-03-01T12:00:00+00:00")
    before = _columns(path)
    migrate_history(f"sqlite:///{path}")
    migrate_history(f"sqlite:///{path}")
    with closing(SQLiteManager(str(path))) as stock:
        assert [row["new_memory"] for row in stock.get_history("m1")] == ["first"]
    assert _columns(path) == before
    engine = create_engine(f"sqlite:///{path}")
    names = sorted(str(index["name"]) for index in inspect(engine).get_indexes("history"))
    assert names == ["history_memory_id", "history_removed"]
    engine.dispose()
    fresh = tmp_path / "fresh.db"
    migrate_history(f"sqlite:///{fresh}")
    # Name and declared type, in order; mem0 declares its key without NOT NULL.
    assert [column[1:3] for column in _columns(fresh)] == [column[1:3] for column in before]
