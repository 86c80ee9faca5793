"""Counts and deletes the rows of an erasure, and returns the ids by which other stores find theirs."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, ColumnElement, Table, and_, delete, select

from memcore.ledger.database import Database, id_chunks
from memcore.ledger.erasure.decisions import JOURNAL, LEDGER, Erased, ErasureScope, condition_of
from memcore.ledger.erasure.shared_rows import LetterRows, ProposalRows, Publications, SkillRows, TestRows
from memcore.ledger.tables import (
    archive,
    booking_records,
    core_slots,
    holds,
    journal_metadata,
    lessons,
    memory_keys,
    memory_use,
    metadata,
    recorded_queries,
)
from memcore.ledger.work_items import move


class _Place(NamedTuple):
    rank: int
    database: Database
    table: Table
    which: ColumnElement[bool]


class ErasableRows:
    """The rows of ledger and journal that are an agent's, or a person's; the tables that ``decisions`` erases."""

    def __init__(self, *, ledger: Database, journal: Database) -> None:
        self._ledger = ledger
        self._journal = journal
        self.letters = LetterRows(ledger)
        self.proposals = ProposalRows(ledger)
        self.publications = Publications(ledger)
        self.skills = SkillRows(ledger)
        self.tests = TestRows(ledger)

    def count(self, scope: ErasureScope) -> dict[str, int]:
        """Return how many rows each table has to lose."""
        return {each.table.name: each.database.count(each.table, each.which) for each in self._places(scope)}

    def delete(self, scope: ErasureScope) -> None:
        """Delete them, table by table; interrupted, a second call goes on."""
        for each in self._places(scope):
            each.database.change(delete(each.table).where(each.which))

    def cancel_work(self, scope: ErasureScope, *, at: datetime) -> int:
        """Cancel the agent's open work, but for the erasure itself, and return how much there was."""
        decision = LEDGER["work_items"]
        assert isinstance(decision, Erased)  # noqa: S101  # the table says so; this tells the type checker
        with self._ledger.write() as connection:
            return len(move(connection, "cancel", condition_of(decision, scope), now=at))

    def memory_ids(self, scope: ErasureScope) -> frozenset[str]:
        """Return the ids of the agent's memories, and of others' copies of its lessons, that a row still names."""
        found: set[str] = set()
        named: tuple[tuple[Database, Column[str]], ...] = (
            (self._journal, archive.c.original_id),
            (self._journal, memory_keys.c.memory_id),
            (self._journal, memory_use.c.memory_id),
            (self._ledger, lessons.c.memory_id),
            (self._ledger, core_slots.c.memory_id),
        )
        for database, column in named if scope.subject is None else ():
            found |= _values(database, column, _mine(column.table, scope))
        for each in self._places(scope):
            if each.table is booking_records:
                found |= _values(self._journal, booking_records.c.memory_id, each.which)
            elif each.table is archive:
                found |= _values(self._journal, archive.c.original_id, each.which)
            elif each.table is memory_keys:
                found |= _values(self._journal, memory_keys.c.memory_id, each.which)
        return frozenset(found)

    def count_of(self, scope: ErasureScope, memory_ids: Collection[str]) -> dict[str, int]:
        """Return how many rows of a person's memories each table has that knows memories by their ids alone."""
        found = {
            table.name: sum(database.count(table, which) for which in _parts(table, scope, memory_ids))
            for database, table in self._by_id()
        }
        return found | {recorded_queries.name: len(self._queries(scope, memory_ids))}

    def delete_of(self, scope: ErasureScope, memory_ids: Collection[str]) -> None:
        """Delete them, with the questions to which one of the memories was an answer."""
        for database, table in self._by_id():
            for which in _parts(table, scope, memory_ids):
                database.change(delete(table).where(which))
        for part in id_chunks(self._queries(scope, memory_ids)):
            which = _mine(recorded_queries, scope) & recorded_queries.c.query_id.in_(part)
            self._ledger.change(delete(recorded_queries).where(which))

    def _by_id(self) -> tuple[tuple[Database, Table], ...]:
        return (self._journal, memory_use), (self._journal, holds), (self._ledger, core_slots)

    def _queries(self, scope: ErasureScope, memory_ids: Collection[str]) -> list[str]:
        rows = self._ledger.rows(select(recorded_queries).where(_mine(recorded_queries, scope)))
        wanted = frozenset(memory_ids)
        return [row["query_id"] for row in rows if wanted.intersection(row["memory_ids"])]

    def _places(self, scope: ErasureScope) -> list[_Place]:
        places = [
            _Place(decision.rank, database, tables[name], condition_of(decision, scope))
            for decisions, tables, database in (
                (JOURNAL, journal_metadata.tables, self._journal),
                (LEDGER, metadata.tables, self._ledger),
            )
            for name, decision in decisions.items()
            if isinstance(decision, Erased) and (scope.subject is None or decision.person is not None)
        ]
        return sorted(places, key=lambda each: each.rank)


def _mine(table: Table, scope: ErasureScope) -> ColumnElement[bool]:
    return and_(table.c.company == scope.company, table.c.agent_id == scope.agent_id)


def _parts(table: Table, scope: ErasureScope, memory_ids: Collection[str]) -> Iterator[ColumnElement[bool]]:
    return (_mine(table, scope) & table.c.memory_id.in_(part) for part in id_chunks(memory_ids))


def _values(database: Database, column: Column[str], which: ColumnElement[bool]) -> set[str]:
    rows = database.rows(select(column.label("memory_id")).where(which, column.is_not(None)).distinct())
    return {row["memory_id"] for row in rows}
