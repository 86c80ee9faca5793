"""Tells whether a SQLite file has changed since it was last asked."""

import json
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Column

#: Whether a table has a row with one of the ids; table and column are names of ours.
_HAS_ANY = "SELECT EXISTS (SELECT 1 FROM {table} WHERE {column} IN (SELECT value FROM json_each(?)))"


def file_at(path: str) -> tuple[int, int] | None:
    """Return what names the file at a path, whatever its path is; None where there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class FileWatcher:
    """Tells whether a SQLite file has changed, for a fiftieth of what a query through SQLAlchemy costs.

    A connection of its own, which never writes: SQLite tells it of every change that another one has committed, in any
    process (``PRAGMA data_version``). Safe in several threads; close it before a fork.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._opened = 0

    def version(self) -> tuple[int, int] | None:
        """Return what no two states of the file share while this is open; None when it cannot be told."""
        found = self._value("PRAGMA data_version")
        return None if found is None else (self._opened, found)

    def has_none(self, which: Column[str], ids: Iterable[str]) -> bool:
        """Return whether it is certain that no row of a table has one of the ids in a column."""
        query = _HAS_ANY.format(table=which.table.name, column=which.name)
        return self._value(query, json.dumps(list(ids))) == 0

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        with self._lock:
            self._close()

    def _value(self, query: str, *values: str) -> int | None:
        with self._lock:
            try:
                file = file_at(self._path)
                if self._connection is None or file != self._file:
                    self._close()
                    # rw: a file that is missing is not made.
                    uri = f"{Path(self._path).absolute().as_uri()}?mode=rw"
                    self._connection = sqlite3.connect(
                        uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False
                    )
                    self._connection.execute("PRAGMA query_only=ON")
                    self._file, self._opened = file, self._opened + 1
                rows = self._connection.execute(query, values).fetchall()
            except sqlite3.Error:
                # Busy, damaged or gone: the ordinary query says so.
                self._close()
                return None
        return int(rows[0][0])

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
