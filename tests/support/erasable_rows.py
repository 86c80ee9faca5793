"""A row of each agent in every table that an erasure empties, whatever its columns are."""

from typing import Any

from sqlalchemy import JSON, Boolean, Column, Float, Integer, LargeBinary, Table

from memcore.ledger.database import Database, UtcDateTime
from memcore.ledger.erasure.decisions import JOURNAL, LEDGER, Erased
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import journal_metadata, metadata
from support.ledger_records import COMPANY
from support.memories import DAWN

#: Columns whose values lead from one table to another.
LINKED = {"booking_id": "booking", "archival_id": "archive", "question_id": "question", "key": "question"}

#: What some columns must hold.
FIXED = {"company": COMPANY, "kind": "question", "state": "done"}


def secret(agent_id: str, table: str) -> str:
    return f"secret of {agent_id} in {table}"


def row(table: Table, agent_id: str, *, person: str) -> dict[str, Any]:
    return {column.name: _value(column, table, agent_id, person) for column in table.c}


def _value(column: Column[Any], table: Table, agent_id: str, person: str) -> Any:
    own = f"{agent_id}-{person}"
    named = {"agent_id": agent_id, "owner": agent_id, "subject": person, **FIXED}
    named |= {name: f"{own}-{link}" for name, link in LINKED.items()}
    kinds: dict[type, Any] = {
        UtcDateTime: DAWN,
        Boolean: False,
        Integer: 1,
        Float: 1.0,
        JSON: {},
        LargeBinary: secret(agent_id, table.name).encode(),
    }
    of_kind = next((value for kind, value in kinds.items() if isinstance(column.type, kind)), None)
    return named.get(column.name, f"{own}-{table.name}-{column.name}" if of_kind is None else of_kind)


def erased_tables() -> list[tuple[str, Table]]:
    found = []
    for place, decisions, tables in (("journal", JOURNAL, journal_metadata), ("ledger", LEDGER, metadata)):
        # By their references: a row must not come before the one that it leads to.
        found += [(place, each) for each in tables.sorted_tables if isinstance(decisions[each.name], Erased)]
    return found


def databases(ledger: Ledger) -> dict[str, Database]:
    ledger_database, journal = ledger._databases
    return {"ledger": ledger_database, "journal": journal}


def fill(ledger: Ledger, agent_id: str, *, person: str = "user:p") -> None:
    """Insert a row of the agent into every table that an erasure empties."""
    places = databases(ledger)
    for place, table in erased_tables():
        with places[place].write() as connection:
            connection.execute(table.insert().values(row(table, agent_id, person=person)))


def rows_of(ledger: Ledger, agent_id: str, *, person: str = "user:p") -> set[str]:
    """Return the tables that still have the row of ``fill``."""
    places, found = databases(ledger), set()
    for place, table in erased_tables():
        wanted = row(table, agent_id, person=person)
        key = [column == wanted[column.name] for column in table.primary_key]
        if places[place].count(table, *key):
            found.add(table.name)
    return found
