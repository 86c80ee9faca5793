"""Transactions on SQLite and PostgreSQL, safe across fork; statements on rows; the base of repositories."""

import json
import os
import select as polling
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from pydantic import BaseModel, BeforeValidator
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    DateTime,
    Delete,
    Dialect,
    Engine,
    Executable,
    RowMapping,
    Select,
    Table,
    Text,
    Update,
    and_,
    case,
    cast,
    column,
    create_engine,
    delete,
    event,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.selectable import FromClause, TableValuedAlias
from sqlalchemy.types import TypeDecorator

from memcore.clock import Clock, utc_now
from memcore.deadline.breaker import Part, breaker_of
from memcore.deadline.limits import part_limit
from memcore.errors import (
    MemoryConfigError,
    MemoryConnectionError,
    MemoryDiskFullError,
    MemoryInputError,
    MemoryRetrievalError,
    MemoryStoreError,
)
from memcore.extras import naming_extras
from memcore.free_space import FOR_WRITES, refuse_when_low
from memcore.ledger.connections.sqlite import FileWatcher, file_at
from memcore.models.memory import EARLIEST, LATEST, MAX_KEY_CHARS, in_range, within_range

#: How long a SQLite writer waits for another one: longer than the longest entry takes to write, shorter than a lease.
BUSY_TIMEOUT = timedelta(seconds=15)

#: Connections kept per process and database: a worker's own thread, its heartbeat, and two for other callers.
KEPT_CONNECTIONS = 4

#: When a PostgreSQL connection is replaced: before a firewall forgets it without a word, which none sees on the socket.
KEPT_FOR = timedelta(minutes=1)

#: How long to wait for PostgreSQL to answer a connect before the call fails.
CONNECT_TIMEOUT = timedelta(seconds=10)

#: The bits of SQLite's error codes that name the kind of error.
_PRIMARY = 0xFF

#: What SQLite says on a full disk when it is not the database's own file that has no room, and at other times too.
_ON_A_FULL_DISK_TOO = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})

#: PostgreSQL's code for a full disk.
_POSTGRESQL_FULL = "53100"

#: What a row is made of before it is written.
Row = dict[str, Any]

#: The execution option with the statement that begins a transaction; without it each statement is one.
_BEGIN = "memtend_begin"


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


def create_database_engine(url: URL) -> Engine:
    """Return an engine that has not connected yet and whose errors never show a statement's values.

    Raises MissingExtraError when the database's driver is not installed.
    """
    options: dict[str, Any]
    if url.get_backend_name() == "sqlite":
        # No limit: a caller that waits for a connection could not say which file is busy.
        options = {"max_overflow": -1}
    else:
        options = {
            "pool_recycle": int(KEPT_FOR.total_seconds()),
            "connect_args": {"connect_timeout": int(CONNECT_TIMEOUT.total_seconds())},
        }
    with naming_extras():
        # The drivers open no transaction by their own rules: prepare_transactions does.
        engine = create_engine(
            url, hide_parameters=True, isolation_level="AUTOCOMMIT", pool_size=KEPT_CONNECTIONS, **options
        )
    if engine.dialect.name == "sqlite":
        event.listen(engine, "do_connect", _connect_sqlite)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "checkout", _check_file)
    else:
        from memcore.ledger.connections.postgresql import connect  # noqa: PLC0415  # SQLite needs no driver

        event.listen(engine, "do_connect", connect)
        event.listen(engine, "checkout", _check_socket)
    event.listen(engine, "begin", prepare_transactions)
    return engine


def _check_socket(connection: Any, _entry: ConnectionPoolEntry, _proxy: object) -> None:
    # A server that stops or dies closes its sockets, which costs no round trip to see: to an idle connection, a server
    # that lives has nothing to say.
    poll = polling.poll()
    poll.register(connection.fileno(), polling.POLLIN)
    if poll.poll(0):
        raise DisconnectionError  # the pool opens another one


def _check_file(connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
    # What is written into a file that was deleted, or replaced by a backup, is lost.
    path, file = entry.info["file"]
    if file_at(path) != file:
        raise DisconnectionError
    if entry.info.get("patience") != (patience := part_limit() or BUSY_TIMEOUT.total_seconds()):
        connection.execute(f"PRAGMA busy_timeout={patience * 1000:.0f}")
        entry.info["patience"] = patience


def _connect_sqlite(_dialect: object, _entry: object, _arguments: object, parameters: dict[str, Any]) -> None:
    parameters["timeout"] = part_limit() or BUSY_TIMEOUT.total_seconds()


def _prepare_sqlite(connection: Any, entry: ConnectionPoolEntry) -> None:
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    ((_, _, path),) = connection.execute("PRAGMA database_list")
    entry.info["file"] = path, file_at(path)


def prepare_transactions(connection: Connection) -> None:
    """Begin a transaction as the caller asked for: the drivers open none by themselves."""
    begin = connection.get_execution_options().get(_BEGIN)
    if begin is not None:
        connection.exec_driver_sql(begin)


#: Answers that a database remembers; with one more it forgets all of them.
_REMEMBERED = 1_024

_Answer = TypeVar("_Answer")


class Database:
    """Opens short transactions on one database; the first one connects.

    Its URL is ``sqlite:///FILE`` or ``postgresql://...``, else MemoryConfigError is raised; messages call it its name.
    """

    def __init__(self, url: str, *, name: str) -> None:
        self._url = parse_url(url, name=name)
        self._name = name
        self._breaker = breaker_of(Part.LEDGER, self._url.render_as_string())
        # By process id: a child of a fork makes an engine of its own, and never closes the one that it inherits, since
        # that would close the parent's sockets. A dict and no lock: a lock that another thread held at the
        # moment of the fork stays locked in the child for ever.
        self._engines: dict[int, Engine] = {}
        self._writers: dict[int, threading.Lock] = {}
        self._watchers: dict[int, FileWatcher] = {}
        self._answers: tuple[object, dict[Hashable, Any]] = None, {}
        if self.dialect == "sqlite":
            _ON_FILES[id(self)] = self

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._url.get_backend_name()

    def engine(self) -> Engine:
        """Return this process's engine."""
        pid = os.getpid()
        return self._engines.get(pid) or self._engines.setdefault(pid, create_database_engine(self._url))

    def read(self) -> AbstractContextManager[Connection]:
        """Open a transaction that only reads.

        Raises:
            MemoryConnectionError: the database cannot be reached.
            MemoryRetrievalError: it refused the read.
        """
        return self._connected("BEGIN")

    def write(self) -> AbstractContextManager[Connection]:
        """Open a transaction that may write; all of it is committed, or on any error nothing.

        Raises:
            MemoryDiskFullError: the disk of the database has no room.
            MemoryConnectionError: the database cannot be reached, or another writer held it for BUSY_TIMEOUT.
            MemoryStoreError: it refused the write.
        """
        # On SQLite, a transaction that reads first and writes later fails at once when another one wrote in between,
        # whatever the busy timeout; taking the write lock at the start waits instead.
        if self.dialect == "sqlite":
            return self._in_turn(self._connected("BEGIN IMMEDIATE", writes=True))
        return self._connected("BEGIN", writes=True)

    def statement(self, *, writes: bool = False) -> AbstractContextManager[Connection]:
        """Connect for one statement, which is a transaction by itself: PostgreSQL takes one round trip, not three.

        Raises as :meth:`read` does, or as :meth:`write`.
        """
        connected = self._connected(None, writes=writes)
        return self._in_turn(connected) if writes and self.dialect == "sqlite" else connected

    @contextmanager
    def _in_turn(self, connected: AbstractContextManager[Connection]) -> Iterator[Connection]:
        # SQLite's writers look again and again whether the file is free, and a thread that writes without a break
        # would starve the others of its process.
        turn = self._writers.setdefault(os.getpid(), threading.Lock())
        if not turn.acquire(timeout=part_limit() or BUSY_TIMEOUT.total_seconds()):
            raise MemoryConnectionError(
                f"the {self._name} cannot be written: another thread holds it", part=Part.LEDGER
            )
        try:
            with connected as connection:
                yield connection
        finally:
            turn.release()

    @contextmanager
    def _connected(self, begin: str | None, *, writes: bool = False) -> Iterator[Connection]:
        with self._breaker.call() as limit:
            began = time.monotonic()
            try:
                with self.engine().connect() as connection:
                    if begin is None:
                        yield connection
                    else:
                        with connection.execution_options(**{_BEGIN: begin}).begin():
                            yield connection
            except (OperationalError, InterfaceError, PoolTimeoutError) as error:
                self._refuse_full_disk(error)
                if limit is not None and time.monotonic() - began >= limit:
                    self._breaker.timed_out()
                done = "written" if writes else "read"
                raise MemoryConnectionError(
                    f"the {self._name} cannot be {done}: {_cause(error)}", part=Part.LEDGER
                ) from error
            except DBAPIError as error:
                if writes:
                    raise MemoryStoreError(f"the {self._name} refused a write: {_cause(error)}") from error
                raise MemoryRetrievalError(f"the {self._name} refused a read: {_cause(error)}") from error

    def remembered(self, key: Hashable, read: Callable[[], _Answer]) -> _Answer:
        """Return what a read of this database returns; on SQLite the answer of before while the file is unchanged.

        The answer must not be changed. ``key`` names the read and all that it depends on.
        """
        # Asked before the read: what changes meanwhile makes the answer newer than its version, never older.
        watcher = self._watcher()
        version = watcher.version() if watcher else None
        if version is None:
            return read()
        of, answers = self._answers
        if of != version or len(answers) > _REMEMBERED:
            of, answers = self._answers = version, {}
        found: _Answer = answers[key] if key in answers else read()
        answers[key] = found
        return found

    def has_none(self, which: Column[str], ids: Iterable[str]) -> bool:
        """Return whether it is certain, and cheap to tell, that no row has one of the ids in a column."""
        watcher = self._watcher()
        return watcher is not None and watcher.has_none(which, ids)

    def _watcher(self) -> FileWatcher | None:
        if self.dialect != "sqlite":
            return None
        pid = os.getpid()
        return self._watchers.get(pid) or self._watchers.setdefault(pid, FileWatcher(str(self._url.database)))

    def rows(self, query: Select[*tuple[Any, ...]]) -> Sequence[RowMapping]:
        """Return the rows that a query finds; raises as :meth:`read` does, and so do the next ones."""
        with self.statement() as connection:
            return connection.execute(query).mappings().all()

    def row(self, query: Select[*tuple[Any, ...]]) -> RowMapping | None:
        """Return the one row that a query finds, if it finds one."""
        with self.statement() as connection:
            return connection.execute(query).mappings().one_or_none()

    def value(self, query: Select[*tuple[Any, ...]]) -> Any:
        """Return the one value that a query finds; None when it finds no row."""
        with self.statement() as connection:
            return connection.execute(query).scalar_one_or_none()

    def count(self, table: FromClause, *which: ColumnElement[bool]) -> int:
        """Return how many rows of a table meet the conditions."""
        with self.statement() as connection:
            return count_rows(connection, table, *which)

    def rows_with(
        self, query: Select[*tuple[Any, ...]], which: ColumnElement[str], ids: Iterable[str]
    ) -> list[RowMapping]:
        """Return the query's rows that have one of the ids in a column; its order holds only within 500 of them."""
        with self.read() as connection:
            return rows_with(connection, query, which, ids)

    def change(self, statement: Update | Delete) -> int:
        """Update or delete rows, and return how many; raises as :meth:`write` does."""
        with self.statement(writes=True) as connection:
            return connection.execute(statement).rowcount

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
        watcher = self._watchers.get(os.getpid())
        if watcher is not None:
            watcher.close()


#: The databases on SQLite of this process.
_ON_FILES: WeakValueDictionary[int, Database] = WeakValueDictionary()


def _close_files() -> None:
    # One that is open across a fork makes the child believe in file locks that it does not hold, and that corrupts the
    # file.
    for kept in _ON_FILES.valuerefs():
        database = kept()
        if database is not None:
            database.close()


os.register_at_fork(before=_close_files)


def _cause(error: Exception) -> str:
    # The driver's first line names the table or the lock; its further lines quote values.
    cause = error.orig if isinstance(error, DBAPIError) else error
    damaged = getattr(cause, "sqlite_errorcode", 0) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    return ("it is damaged, restore it from a backup: " if damaged else "") + str(cause).partition("\n")[0]


_Model = TypeVar("_Model", bound=BaseModel)


def record_of(model: type[_Model], row: Mapping[Any, Any], /, **more: Any) -> _Model:
    """Return a row as its record; columns, and keys in its JSON, that are no field are left out: other releases'."""
    # A row of SQLAlchemy's looks a name up in Python, which costs a third of reading it: its items come at once.
    fields = model.model_fields
    return model.model_validate({name: value for name, value in row.items() if name in fields} | more, extra="ignore")


def known_keys(names: Collection[str]) -> BeforeValidator:
    """Return what leaves keys of other releases out of a map of a row whose keys are these names."""

    def known(given: Any) -> Any:
        return {key: value for key, value in given.items() if key in names} if isinstance(given, Mapping) else given

    return BeforeValidator(known)


def equals(table: FromClause, **values: Any) -> ColumnElement[bool]:
    """Return the condition for rows with these values."""
    return and_(*(table.c[name] == value for name, value in values.items()))


def later_of(time: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the later of two times, in the words that both databases know."""
    return case((time > other, time), else_=other)


def changed(connection: Connection, model: type[_Model], statement: Update) -> _Model | None:
    """Update at most one row, and return it as it is then; None when there was none to update."""
    return one_record(connection, model, statement.returning(*statement.table.c))


def one_record(connection: Connection, model: type[_Model], query: Executable) -> _Model | None:
    """Return the one row of a query as its record, if there is one."""
    row = connection.execute(query).mappings().one_or_none()
    return record_of(model, row) if row else None


def count_rows(connection: Connection, table: FromClause, *which: ColumnElement[bool]) -> int:
    """Return how many rows of a table meet the conditions."""
    return int(connection.execute(select(func.count()).select_from(table).where(*which)).scalar_one())


#: Ids in one query: well below SQLite's limit of 32,766 values.
IDS_PER_QUERY = 500


def id_chunks(ids: Iterable[str]) -> list[list[str]]:
    """Sort the ids, and cut them into pieces that one query can carry."""
    ordered = sorted(set(ids))
    return [ordered[start : start + IDS_PER_QUERY] for start in range(0, len(ordered), IDS_PER_QUERY)]


def rows_with(
    connection: Connection, query: Select[*tuple[Any, ...]], which: ColumnElement[str], ids: Iterable[str]
) -> list[RowMapping]:
    """Return the query's rows that have one of the ids in a column; its order holds only within each piece of ids."""
    return [row for part in id_chunks(ids) for row in connection.execute(query.where(which.in_(part))).mappings()]


def values_table(columns: Mapping[str, Column[Any]], rows: Sequence[Mapping[str, Any]]) -> TableValuedAlias:
    """Return the rows as a table with these columns, typed as the columns of a real table; PostgreSQL alone knows it.

    They go as one text. The driver would need four times as long for an array of each column, and longer still for a
    placeholder of each value: 1,000 runs have 14,000 of them.
    """
    given = [{name: row[name] for name in columns} for row in rows]
    text = json.dumps(given, ensure_ascii=False, default=lambda at: _in_utc(at).isoformat())
    names = [column(name, real.type) for name, real in columns.items()]
    table = func.json_to_recordset(cast(literal(text, Text()), JSON)).table_valued(*names)
    return table.render_derived(name="given", with_types=True)


def insert_for(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """Return the dialect's own insert, which knows ON CONFLICT."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def insert_one(connection: Connection, table: Table, row: Row) -> bool:
    """Insert the row unless it breaks a unique constraint, and return whether it is new."""
    statement = insert_for(connection, table).values(row).on_conflict_do_nothing()
    return connection.execute(statement.returning(*table.primary_key)).first() is not None


def put(connection: Connection, table: Table, rows: list[Row]) -> None:
    """Insert the rows; one whose key is there takes the place of its values, in the columns that are given.

    Pass rows in one order everywhere, as to :func:`insert_new`.
    """
    if not rows:
        return
    statement = insert_for(connection, table)
    new = {name: statement.excluded[name] for name in rows[0] if not table.c[name].primary_key}
    connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=new), rows)


def insert_new(connection: Connection, table: Table, rows: list[Row], *, key: str) -> frozenset[str]:
    """Insert the rows that break no unique constraint and return the ``key`` column of those inserted.

    Pass rows in one order everywhere (sorted by key): two writers that lock in different orders deadlock on PostgreSQL.
    """
    if not rows:
        return frozenset()
    statement = insert_for(connection, table).on_conflict_do_nothing().returning(table.c[key])
    return frozenset(_insert(connection, statement, table, rows).scalars())


def add_new(connection: Connection, table: Table, rows: list[Row]) -> None:
    """Do what :func:`insert_new` does, without an answer: on SQLite at half the CPU, since each row goes by itself."""
    if rows:
        _insert(connection, _adding(connection.dialect.name, table), table, rows)


@cache
def _adding(dialect: str, table: Table) -> "postgresql.Insert | sqlite.Insert":
    # Kept: to make the statement, and the key under which it is compiled, takes longer than to insert a row.
    if dialect == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _insert(connection: Connection, statement: Any, table: Table, rows: list[Row]) -> CursorResult[Any]:
    if connection.dialect.name != "postgresql":
        return connection.execute(statement, rows)
    given = values_table({name: table.c[name] for name in rows[0]}, rows)
    return connection.execute(statement.from_select(list(rows[0]), select(given)))


def _in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time without a zone cannot be stored")
    # The clock is asked only about a time that it refuses: this runs for every value of every row.
    return (value if EARLIEST <= value <= LATEST else in_range(value)).astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time with microseconds: stored in UTC, read back aware; one without a zone is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turn an aware time into UTC."""
        if value is None:
            return None
        value = _in_utc(value)
        # SQLite keeps times as text; leaving the zone out keeps them all one length, so that they sort as times do.
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time aware, in UTC."""
        del dialect
        if value is None:
            return None
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        # Older releases took any date; a row must not become unreadable for one.
        return (value if EARLIEST <= value <= LATEST else within_range(value)).astimezone(UTC)


def json_document(*, none_as_null: bool = False) -> JSON:
    """Return the type of a small JSON object: binary on PostgreSQL, text on SQLite; None is JSON's null or SQL's."""
    return JSON(none_as_null=none_as_null).with_variant(JSONB(none_as_null=none_as_null), "postgresql")


def checked_key(field: str, value: str) -> str:
    """Return an id without outer white space; MemoryInputError when it is blank, too long or has a NUL."""
    key = value.strip()
    if not key:
        raise MemoryInputError(field, "must not be blank")
    if len(key) > MAX_KEY_CHARS:
        raise MemoryInputError(field, f"has {len(key)} characters; the limit is {MAX_KEY_CHARS}")
    if "\x00" in key:
        raise MemoryInputError(field, "must not contain the character NUL")
    return key


def checked_time(field: str, value: datetime) -> datetime:
    """Return the time; MemoryInputError when it has no zone, or lies out of the range of all times."""
    if value.tzinfo is None:
        raise MemoryInputError(field, "needs a time zone")
    try:
        return in_range(value)
    except ValueError as error:
        raise MemoryInputError(field, str(error)) from None


class Repository:
    """The base of what reads and writes a few tables; every method is one short transaction."""

    def __init__(self, database: Database, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def close(self) -> None:
        """Close the connections that are kept."""
        self._database.close()


class Records(Repository, Generic[_Model]):
    """The base of a repository of one table, whose rows are read as one kind of record."""

    _table: Table
    _model: type[_Model]
    #: What orders the pages: the time, then the id.
    _newest_by: tuple[Column[Any], Column[Any]]
    #: Most records of a page.
    _page_size: int

    def _record(self, row: Mapping[Any, Any]) -> _Model:
        return record_of(self._model, row)

    def _one(self, query: Select[*tuple[Any, ...]]) -> _Model | None:
        row = self._database.row(query)
        return None if row is None else self._record(row)

    def _all(self, query: Select[*tuple[Any, ...]]) -> tuple[_Model, ...]:
        return tuple(map(self._record, self._database.rows(query)))

    def _page(self, query: Select[*tuple[Any, ...]], *, before: _Model | None, limit: int) -> tuple[_Model, ...]:
        """Return a page of the query, the newest first; ``before`` is the last record of the page before."""
        at, key = self._newest_by
        if before is not None:
            last_at, last_key = self._position(before)
            # The first condition says nothing new, but an index can begin there.
            query = query.where(at <= last_at, or_(at < last_at, key < last_key))
        return self._all(query.order_by(at.desc(), key.desc()).limit(min(limit, self._page_size)))

    def _position(self, record: _Model) -> tuple[Any, ...]:
        return tuple(getattr(record, column.name) for column in self._newest_by)

    def _counts(self, *which: ColumnElement[bool]) -> dict[str, int]:
        company = self._table.c.company
        query = select(company, func.count().label("count")).where(*which).group_by(company)
        return {row["company"]: row["count"] for row in self._database.rows(query)}

    def _update(self, which: ColumnElement[bool], values: Row) -> int:
        return self._database.change(update(self._table).where(which).values(values))

    def _delete(self, *which: ColumnElement[bool]) -> int:
        return self._database.change(delete(self._table).where(*which))


class CompanyRecords(Records[_Model]):
    """The base of a repository whose table has a row for each company and id."""

    def get(self, company: str, row_id: str) -> _Model | None:
        """Return the record of an id, or None when this company has none with it."""
        return self._one(select(self._table).where(self._is(company, row_id)))

    def count(self, company: str) -> int:
        """Return how many rows a company has."""
        return self._database.count(self._table, self._table.c.company == company)

    def _is(self, company: str, row_id: str) -> ColumnElement[bool]:
        of_company, of_row = self._table.primary_key
        return and_(of_company == company, of_row == row_id)
