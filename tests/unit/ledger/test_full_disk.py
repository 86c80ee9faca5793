"""A database whose disk is full: nothing is written, and the error says that it will go on once there is room."""

import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from memcore.errors import MemoryConnectionError, MemoryDiskFullError
from memcore.ledger.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(f"sqlite:///{tmp_path / 'ledger.db'}", name="ledger")
    with made.write() as connection:
        connection.execute(text("CREATE TABLE things (thing TEXT)"))
    return made


def test_a_write_for_which_there_is_no_capacity_is_not_there_and_works_later(database: Database) -> None:
    add = text("INSERT INTO things SELECT hex(randomblob(5000)) FROM (VALUES (1), (2), (3), (4), (5))")

    def fill() -> None:
        with database.write() as connection:
            connection.execute(text("PRAGMA max_page_count = 3"))
            connection.execute(add)

    with pytest.raises(MemoryDiskFullError, match="the disk of the ledger is full") as full:
        fill()
    assert full.value.is_retryable
    assert _count(database) == 0
    database.close()  # the PRAGMA's limit is the connection's
    with database.write() as connection:
        connection.execute(add)
    assert _count(database) == 5


def _count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM things")).scalar_one())


@pytest.mark.parametrize(("free", "kind"), [(0, MemoryDiskFullError), (2**30, MemoryConnectionError)])
@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN])
def test_what_sqlite_says_on_a_full_disk_too_is_judged_by_the_disk(
    database: Database, monkeypatch: pytest.MonkeyPatch, free: int, kind: type[Exception], code: int
) -> None:
    cause = sqlite3.OperationalError("disk I/O error")
    cause.sqlite_errorcode = code | 0x300
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1, 1, 9, 9, free, 0, 0, 0, 0, 255)))
    for way in (database.read, database.write):
        with pytest.raises(kind) as raised, way():
            raise OperationalError("SELECT 1", {}, cause)
        assert type(raised.value) is kind
