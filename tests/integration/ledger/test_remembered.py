"""What a database remembers is what a read would return now, whoever has changed the file since."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, String, Table, insert, select

from memcore.config.urls import sqlite_url
from memcore.ledger.database import Database

PLACES = MetaData()
PLACE = Table("place", PLACES, Column("name", String, primary_key=True))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a place?.db"


@pytest.fixture
def database(file: Path) -> Iterator[Database]:
    made = Database(sqlite_url(file), name="ledger")
    with made.write() as connection:
        connection.exec_driver_sql("PRAGMA user_version=1")
    with made.statement(writes=True) as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        PLACES.create_all(connection)
    yield made
    made.close()


class Places:
    """Reads all places, and counts how often it was asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reads = 0

    def __call__(self) -> frozenset[str]:
        self.reads += 1
        return frozenset(row["name"] for row in self._database.rows(select(PLACE)))


def by_this_object(database: Database, _file: Path) -> None:
    with database.write() as connection:
        connection.execute(insert(PLACE), [{"name": "Ulm"}])


def by_another_object(_database: Database, file: Path) -> None:
    other = Database(sqlite_url(file), name="ledger")
    with other.write() as connection:
        connection.execute(insert(PLACE), [{"name": "Ulm"}])
    other.close()


def by_another_process(_database: Database, file: Path) -> None:
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(\"INSERT INTO place VALUES ('Ulm')\")"
    subprocess.run([sys.executable, "-c", f"{code}; c.commit()", str(file)], check=True)


def by_a_backup(database: Database, file: Path) -> None:
    other = file.with_name("other.db")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE place (name VARCHAR NOT NULL PRIMARY KEY)")
        connection.execute("INSERT INTO place VALUES ('Ulm')")
    connection.close()
    database.close()
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    other.replace(file)


CHANGES = [by_a_backup, by_another_object, by_another_process, by_this_object]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_by_the_next_call(
    database: Database, file: Path, change: Callable[[Database, Path], None]
) -> None:
    places = Places(database)
    assert database.remembered("places", places) == frozenset()
    assert database.has_none(PLACE.c.name, ["Ulm"])

    change(database, file)

    assert database.remembered("places", places) == {"Ulm"}
    assert not database.has_none(PLACE.c.name, ["Rom", "Ulm"])


def test_nothing_is_read_again_while_nothing_changes(database: Database) -> None:
    places = Places(database)
    for _ in range(3):
        database.remembered("places", places)
    assert places.reads == 1


def test_another_question_is_asked(database: Database) -> None:
    places = Places(database)
    database.remembered("places", places)
    database.remembered("other places", places)
    assert places.reads == 2


def test_a_change_during_the_read_is_not_missed(database: Database, file: Path) -> None:
    places = Places(database)

    def read_and_change() -> frozenset[str]:
        found = places()
        by_another_object(database, file)
        return found

    assert database.remembered("places", read_and_change) == frozenset()
    assert database.remembered("places", places) == {"Ulm"}


def test_of_a_change_that_is_not_committed_nothing_is_seen(database: Database) -> None:
    with database.write() as connection:
        connection.execute(insert(PLACE), [{"name": "Ulm"}])
        assert database.has_none(PLACE.c.name, ["Ulm"])
    assert not database.has_none(PLACE.c.name, ["Ulm"])


def test_of_a_file_that_is_gone_nothing_is_certain_and_none_is_made(database: Database, file: Path) -> None:
    assert database.has_none(PLACE.c.name, ["Ulm"])
    database.close()
    file.unlink()

    assert not database.has_none(PLACE.c.name, ["Ulm"])
    assert not file.exists()
