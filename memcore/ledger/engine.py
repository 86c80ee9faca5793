"""One database: short transactions, safe across fork, on SQLite and PostgreSQL alike."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import NullPool

from memcore.errors import (
    MemoryConfigError,
    MemoryConnectionError,
    MemoryDiskFullError,
    MemoryRetrievalError,
    MemoryStoreError,
)
from memcore.extras import naming_extras
from memcore.free_space import FOR_WRITES, refuse_when_low

#: How long a SQLite writer waits for another one: longer than the longest booking takes to write, shorter than a lease.
BUSY_TIMEOUT = timedelta(seconds=15)

#: PostgreSQL connections kept per process: a worker's own thread, its heartbeat, and two for other callers.
KEPT_CONNECTIONS = 4

#: How long to wait for PostgreSQL to answer a connect before the caller hears of it.
CONNECT_TIMEOUT = timedelta(seconds=10)

#: The bits of SQLite's error codes that name the kind of error.
_PRIMARY = 0xFF

#: What SQLite says on a full disk when it is not the database's own file that has no room, and at other times too.
_ON_A_FULL_DISK_TOO = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})

#: PostgreSQL's code for a full disk.
_POSTGRESQL_FULL = "53100"

#: The execution option that turns BEGIN into BEGIN IMMEDIATE on SQLite.
_WRITES = "memtend_writes"


def parse_url(url: str, *, name: str) -> URL:
    """Return the URL with the driver that memtend ships; MemoryConfigError says what is wrong, never the URL."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise MemoryConfigError(f"{name}: not a database URL; write sqlite:///FILE or postgresql://HOST/NAME") from None
    if parsed.drivername in {"sqlite", "sqlite+pysqlite"}:
        if not parsed.database or parsed.database == ":memory:":
            raise MemoryConfigError(f"{name}: SQLite needs a file, since several processes share it")
        return parsed
    if parsed.drivername in {"postgres", "postgresql", "postgresql+psycopg"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise MemoryConfigError(f"{name}: {parsed.drivername} is not supported; use sqlite or postgresql")


def sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file; written by hand, a % or ? in its path would name another file."""
    return URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)


def create_database_engine(url: URL) -> Engine:
    """Return an engine that has not connected yet and whose errors never show a statement's values.

    Raises MissingExtraError when the database's driver is not installed.
    """
    if url.get_backend_name() != "sqlite":
        with naming_extras():
            return create_engine(
                url,
                hide_parameters=True,
                pool_size=KEPT_CONNECTIONS,
                pool_pre_ping=True,
                connect_args={"connect_timeout": int(CONNECT_TIMEOUT.total_seconds())},
            )
    # No SQLite connection outlives its transaction: one that is open across a fork makes the child believe in file
    # locks that it does not hold, and that corrupts the file. Opening costs 0.1 to 0.3 ms.
    engine = create_engine(
        url, hide_parameters=True, poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT.total_seconds()}
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # None stops the driver from opening transactions by its own rules; _begin_sqlite opens them.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later fails at once when another one wrote in between, whatever the
    # busy timeout; taking the write lock at the start waits instead.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class Database:
    """A database to open transactions on; opening connects to nothing yet.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://...``.
        name: what messages call it.

    Raises:
        MemoryConfigError: the URL is not one of these.
    """

    def __init__(self, url: str, *, name: str) -> None:
        self._url = parse_url(url, name=name)
        self._name = name
        # By process id: a child of a fork makes an engine of its own, and never closes the one that it inherits, since
        # that would say goodbye on the parent's sockets. A dict and no lock: a lock that another thread held at the
        # moment of the fork stays locked in the child for ever.
        self._engines: dict[int, Engine] = {}

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._url.get_backend_name()

    def engine(self) -> Engine:
        """Return this process's engine."""
        pid = os.getpid()
        return self._engines.get(pid) or self._engines.setdefault(pid, create_database_engine(self._url))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads.

        Raises:
            MemoryConnectionError: the database cannot be reached.
            MemoryRetrievalError: it refused the read.
        """
        try:
            with self.engine().begin() as connection:
                yield connection
        except (OperationalError, InterfaceError, PoolTimeoutError) as error:
            self._refuse_full_disk(error)
            raise MemoryConnectionError(f"the {self._name} cannot be read: {_cause(error)}") from error
        except DBAPIError as error:
            raise MemoryRetrievalError(f"the {self._name} refused a read: {_cause(error)}") from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that may write; all of it is committed, or on any error nothing.

        Raises:
            MemoryDiskFullError: the disk of the database has no room.
            MemoryConnectionError: the database cannot be reached, or another writer held it for BUSY_TIMEOUT.
            MemoryStoreError: it refused the write.
        """
        try:
            with self.engine().execution_options(**{_WRITES: True}).begin() as connection:
                yield connection
        except (OperationalError, InterfaceError, PoolTimeoutError) as error:
            self._refuse_full_disk(error)
            raise MemoryConnectionError(f"the {self._name} cannot be written: {_cause(error)}") from error
        except DBAPIError as error:
            raise MemoryStoreError(f"the {self._name} refused a write: {_cause(error)}") from error

    def _refuse_full_disk(self, error: Exception) -> None:
        cause = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(cause, "sqlite_errorcode", 0) & _PRIMARY
        if code == sqlite3.SQLITE_FULL or getattr(cause, "sqlstate", None) == _POSTGRESQL_FULL:
            raise MemoryDiskFullError(f"the disk of the {self._name} is full") from error
        if code in _ON_A_FULL_DISK_TOO and self._url.database:
            refuse_when_low(Path(self._url.database).parent, least=FOR_WRITES)

    def close(self) -> None:
        """Close the connections that are kept; a later transaction opens new ones."""
        engine = self._engines.get(os.getpid())
        if engine is not None:
            engine.dispose()


def _cause(error: Exception) -> str:
    # The driver's first line names the table or the lock; its further lines quote values.
    cause = error.orig if isinstance(error, DBAPIError) else error
    damaged = getattr(cause, "sqlite_errorcode", 0) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    return ("it is damaged, restore it from a backup: " if damaged else "") + str(cause).partition("\n")[0]
