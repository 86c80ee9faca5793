"""No table is forgotten: each says what becomes of its rows when an agent, or a person, is erased."""

import pytest
from sqlalchemy import MetaData

from memcore.ledger.conversation import tables as conversation
from memcore.ledger.erasure.decisions import HISTORY, JOURNAL, LEDGER, Elsewhere, Erased, Kept
from memcore.ledger.tables import history_metadata, journal_metadata, metadata

PLACES = [(metadata, LEDGER), (journal_metadata, JOURNAL), (history_metadata, HISTORY)]

#: Tables that name an agent and stay, as `docs/how-to/erase.md` says.
NAMED_AND_KEPT = {"model_spending", "model_calls", "erasures", "webhook_deliveries"}


@pytest.mark.parametrize(("tables", "decisions"), PLACES, ids=["ledger", "journal", "history"])
def test_each_table_has_a_decision(tables: MetaData, decisions: dict[str, Erased | Elsewhere | Kept]) -> None:
    assert conversation.owners.name in metadata.tables
    assert set(tables.tables) == set(decisions), "say in memcore/ledger/erasure/decisions.py what becomes of its rows"


def test_a_table_that_names_an_agent_is_erased_or_says_why_not() -> None:
    kept = {
        name
        for tables, decisions in PLACES
        for name, table in tables.tables.items()
        if {"agent_id", "owner"} & set(table.c.keys()) and isinstance(decisions[name], Kept)
    }
    assert kept == NAMED_AND_KEPT


def test_a_table_that_names_a_person_is_erased_for_one() -> None:
    people = {
        name
        for name, table in metadata.tables.items()
        if {"agent_id", "subject"} <= set(table.c.keys()) and name != "erasures"
    }
    assert people
    for name in people:
        decision = LEDGER[name]
        assert isinstance(decision, Erased)
        assert decision.person is not None, name
