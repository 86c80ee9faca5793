"""Memory tests that people have registered: the gate asks them, and they run after maintenance; the last result."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy import Column, String, Table, delete, select, update

from memcore.errors import MemoryInputError
from memcore.ledger.database import (
    Records,
    Row,
    UtcDateTime,
    checked_key,
    count_rows,
    equals,
    id_chunks,
    json_document,
    put,
    record_of,
    rows_with,
)
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.tables import metadata
from memcore.ledger.webhooks.outbox import announce
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime
from memcore.models.memory_test import MemoryTest, Outcome
from memcore.models.webhook import EventNotice, WebhookEventType

memory_tests = Table(
    "memory_tests",
    metadata,
    *(Column(name, String, primary_key=True) for name in ("company", "agent_id", "name")),
    Column("test", json_document(), nullable=False),
    # The user_id of a person whose facts it expects.
    Column("person", String),
    Column("registered_at", UtcDateTime, nullable=False),
    # The last result; memory_ids are those of what met an expectation.
    Column("outcome", String),
    *(Column(name, json_document(none_as_null=True)) for name in ("reasons", "memory_ids")),
    Column("run_id", String),
    Column("asked_at", UtcDateTime),
)

#: Most tests of an agent, and of a company: as many as one run of files asks.
MOST_OF_AGENT, MOST_OF_COMPANY = 1_000, 10_000


#: What says which test it is, as it was registered.
_NAMED = {"agent_id", "name", "registered_at"}


class RegisteredTest(Frozen):
    """A test that a person has registered, and what came of it last.

    Attributes:
        outcome: None while it has not run.
        reasons: what was expected and was there instead, a sentence each.
        memory_ids: what met an expectation.
        run_id: the run behind which it was asked.
    """

    agent_id: str
    name: str
    test: MemoryTest
    registered_at: BoundedTime
    outcome: Outcome | None = None
    reasons: tuple[str, ...] = Field(default=(), repr=False)
    memory_ids: tuple[str, ...] = ()
    run_id: str | None = None
    asked_at: BoundedTime | None = None


class MemoryTests(Records[RegisteredTest]):
    """The table memory_tests. Every call raises MemoryConnectionError and MemoryStoreError."""

    _table = memory_tests
    _model = RegisteredTest

    def register(self, company: str, tests: Sequence[MemoryTest], *, notes: Sequence[AuditNote]) -> int:
        """Register tests, each in the place of the one with its name, and return how many are new or changed.

        One that is the same keeps its result. All are registered, or none. Raises MemoryInputError.
        """
        company, now, table = checked_key("company", company), self._clock(), memory_tests.c
        rows = {(each.agent, each.name): _row(company, each) for each in tests}
        agents, mine = {each.agent for each in tests}, table.company == company
        with self._database.write() as connection:
            every = select(table.agent_id, table.name, table.test).where(mine)
            known = {
                (row["agent_id"], row["name"]): row["test"]
                for row in rows_with(connection, every, table.agent_id, agents)
            }
            fresh = [row for name, row in sorted(rows.items()) if known.get(name) != row["test"]]
            put(connection, memory_tests, [row | {"registered_at": now} for row in fresh])
            if count_rows(connection, memory_tests, mine) > MOST_OF_COMPANY:
                raise MemoryInputError("tests", f"the company would have more than {MOST_OF_COMPANY:,} tests")
            for agent_id, count in Counter(agent_id for agent_id, _ in {*known, *rows}).items():
                if count > MOST_OF_AGENT:
                    raise MemoryInputError(
                        "tests", f"agent {agent_id} would have {count:,} tests; the limit is {MOST_OF_AGENT:,}"
                    )
            for note in notes:
                append(connection, company, note, at=now)
        return len(fresh)

    def list(self, company: str, agent_id: str | None = None) -> tuple[RegisteredTest, ...]:
        """Return the tests of a company, or of one agent, by agent and name."""
        table, named = memory_tests.c, {} if agent_id is None else {"agent_id": agent_id}
        query = select(memory_tests).where(equals(memory_tests, company=company, **named))
        return self._all(query.order_by(table.agent_id, table.name))

    def due(self, company: str, agent_id: str, *, before: datetime) -> tuple[RegisteredTest, ...]:
        """Return the agent's tests that were not asked since then, those that waited longest first."""
        table = memory_tests.c
        mine = equals(memory_tests, company=company, agent_id=agent_id)
        waits = table.asked_at.is_(None) | (table.asked_at < before)
        order = (table.asked_at.is_not(None), table.asked_at, table.name)
        return self._all(select(memory_tests).where(mine, waits).order_by(*order))

    def keep(self, company: str, results: Sequence[RegisteredTest]) -> None:
        """Keep what came of tests, and announce each that fails now and did not before.

        Of one that was replaced or removed meanwhile nothing is kept.
        """
        now, did_not_fail = self._clock(), memory_tests.c.outcome.is_distinct_from(Outcome.FAILED)
        with self._database.write() as connection:
            for each in results:
                its = equals(memory_tests, company=company, **each.model_dump(include=_NAMED))
                if each.outcome is Outcome.FAILED and count_rows(connection, memory_tests, its & did_not_fail):
                    data = {"test": each.name, "run_id": each.run_id}
                    notice = EventNotice(event=WebhookEventType.MEMORY_TEST_FAILED, agent_id=each.agent_id, data=data)
                    announce(connection, company, notice, at=now)
                values: Row = {"outcome": each.outcome, "run_id": each.run_id, "asked_at": now}
                values |= {"reasons": [*each.reasons], "memory_ids": [*each.memory_ids]}
                connection.execute(update(memory_tests).where(its).values(values))

    def failed_of(self, company: str, among: Collection[str] | None = None) -> tuple[tuple[str, str | None], ...]:
        """Return agent and person of each test that failed when it was asked last; of these agents where named."""
        table, its = memory_tests.c, equals(memory_tests, company=company, outcome=Outcome.FAILED)
        query = select(table.agent_id, table.person).where(its)
        with self._database.read() as connection:
            if among is None:
                return tuple((row.agent_id, row.person) for row in connection.execute(query))
            rows = rows_with(connection, query, table.agent_id, among)
            return tuple((row["agent_id"], row["person"]) for row in rows)

    def remove(self, company: str, agent_id: str, names: Collection[str] | None, *, note: AuditNote) -> tuple[str, ...]:
        """Remove tests of an agent by name, or all of them, and return the names of those that were there."""
        mine, gone = equals(memory_tests, company=company, agent_id=agent_id), set[str]()
        parts = [mine] if names is None else [mine & memory_tests.c.name.in_(part) for part in id_chunks(names)]
        with self._database.write() as connection:
            for which in parts:
                query = delete(memory_tests).where(which).returning(memory_tests.c.name)
                gone.update(connection.execute(query).scalars())
            append(connection, company, note, at=self._clock())
        return tuple(sorted(gone))

    def _record(self, row: Mapping[Any, Any]) -> RegisteredTest:
        lists = {name: row[name] or () for name in ("reasons", "memory_ids")}
        return record_of(self._model, {**row, **lists, "test": record_of(MemoryTest, row["test"])})


def _row(company: str, test: MemoryTest) -> Row:
    written = test.model_dump(mode="json", exclude_defaults=True)
    new = dict.fromkeys(("outcome", "reasons", "memory_ids", "run_id", "asked_at"))
    return {
        "company": company,
        "agent_id": test.agent,
        "name": test.name,
        "test": written,
        "person": test.person,
        **new,
    }
