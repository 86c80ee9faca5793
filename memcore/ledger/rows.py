"""What repositories share: rows that are read as records, page by page, and work that is leased and dispatched."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import Column, ColumnElement, Select, Table, and_, delete, or_, select, true, update

from memcore import ids
from memcore.clock import Clock, utc_now
from memcore.ledger.database import Database, Row, changed, id_chunks, record_of


class Repository:
    """The base of what reads and writes a few tables; every method is one short transaction."""

    def __init__(self, database: Database, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def close(self) -> None:
        """Close the connections that are kept."""
        self._database.close()


_Record = TypeVar("_Record", bound=BaseModel)


class Records(Repository, Generic[_Record]):
    """The base of a repository of one table, whose rows are read as one kind of record."""

    _table: Table
    _model: type[_Record]
    #: What orders the pages: the time, then the id.
    _newest_by: tuple[Column[Any], Column[Any]]
    #: Most records of a page.
    _page_size: int

    def _record(self, row: Mapping[Any, Any]) -> _Record:
        return record_of(self._model, row)

    def _one(self, query: Select[*tuple[Any, ...]]) -> _Record | None:
        row = self._database.row(query)
        return None if row is None else self._record(row)

    def _all(self, query: Select[*tuple[Any, ...]]) -> tuple[_Record, ...]:
        return tuple(map(self._record, self._database.rows(query)))

    def _page(self, query: Select[*tuple[Any, ...]], *, before: _Record | None, limit: int) -> tuple[_Record, ...]:
        """Return a page of the query, the newest first; ``before`` is the last record of the page before."""
        at, key = self._newest_by
        if before is not None:
            last_at, last_key = self._position(before)
            # The first condition says nothing new, but an index can begin there.
            query = query.where(at <= last_at, or_(at < last_at, key < last_key))
        return self._all(query.order_by(at.desc(), key.desc()).limit(min(limit, self._page_size)))

    def _position(self, record: _Record) -> tuple[Any, ...]:
        return tuple(getattr(record, column.name) for column in self._newest_by)

    def _changed(self, which: ColumnElement[bool], values: Row) -> _Record | None:
        """Update at most one row, and return it as it is then; None when there was none to update."""
        with self._database.write() as connection:
            return changed(connection, self._model, update(self._table).where(which).values(values))

    def _update(self, which: ColumnElement[bool], values: Row) -> int:
        return self._database.change(update(self._table).where(which).values(values))

    def _delete(self, *which: ColumnElement[bool]) -> int:
        return self._database.change(delete(self._table).where(*which))


class CompanyRecords(Records[_Record]):
    """The base of a repository whose table has a row for each company and id."""

    def get(self, company: str, row_id: str) -> _Record | None:
        """Return the record of an id, or None when this company has none with it."""
        return self._one(select(self._table).where(self._is(company, row_id)))

    def count(self, company: str) -> int:
        """Return how many rows a company has."""
        return self._database.count(self._table, self._table.c.company == company)

    def _is(self, company: str, row_id: str) -> ColumnElement[bool]:
        of_company, of_row = self._table.primary_key
        return and_(of_company == company, of_row == row_id)


class Work(Records[_Record]):
    """The base of a repository whose rows are work: a message asks for it, and the sweep replaces lost messages.

    Where the table has a token, a worker leases the row; another one may claim it when the lease has ended.
    """

    #: Work that is not done.
    _open: ColumnElement[bool]

    def waiting(self, company: str, *, dispatched_before: timedelta, limit: int = 1) -> tuple[_Record, ...]:
        """Return open work that nobody holds and whose message is so old that it counts as lost, the oldest first.

        It is marked as dispatched now, in the same transaction, so that two sweeps dispatch once.
        """
        now, table = self._clock(), self._table
        *_, key = table.primary_key
        lost = and_(table.c.company == company, self._open, self._free(now), table.c.rung_at < now - dispatched_before)
        if self._database.row(select(key).where(lost).limit(1)) is None:
            return ()  # most sweeps end here, and take no lock
        with self._database.write() as connection:
            # On PostgreSQL two sweeps would otherwise both see what neither has marked yet.
            query = select(table).where(lost).order_by(table.c.rung_at, key).limit(limit)
            rows = connection.execute(query.with_for_update(skip_locked=True)).mappings().all()
            for part in id_chunks(row[key] for row in rows):
                connection.execute(update(table).where(table.c.company == company, key.in_(part)).values(rung_at=now))
        return tuple(map(self._record, rows))

    def _free(self, now: Any) -> ColumnElement[bool]:
        columns = self._table.c
        return or_(columns.token.is_(None), columns.lease_until < now) if "token" in columns else true()

    def _is_held(self, token: str) -> ColumnElement[bool]:
        return and_(self._table.c.token == token, self._open)

    def _claim(self, which: ColumnElement[bool], values: Row, *, lease: timedelta) -> _Record | None:
        """Claim open work that nobody holds under a fresh token; None when there is none."""
        now = self._clock()
        claimed = {"token": ids.new_id(), "lease_until": now + lease, **values}
        return self._changed(and_(which, self._open, self._free(now)), claimed)
