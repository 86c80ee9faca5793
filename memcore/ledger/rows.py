"""What repositories share: rows that are read as records, page by page."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import Column, ColumnElement, Select, Table, and_, delete, func, or_, select, update

from memcore.clock import Clock, utc_now
from memcore.ledger.database import Database, Row, record_of


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

    def _counts(self, *which: ColumnElement[bool]) -> dict[str, int]:
        company = self._table.c.company
        query = select(company, func.count().label("count")).where(*which).group_by(company)
        return {row["company"]: row["count"] for row in self._database.rows(query)}

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
