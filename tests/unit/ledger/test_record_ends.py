"""No table is forgotten: each says when its rows end, or why they do not."""

from datetime import timedelta

import pytest
from reference.keys import keys
from sqlalchemy import MetaData

from memcore.config.memory import CompanyMemoryConfig
from memcore.ledger.conversation import tables as conversation
from memcore.ledger.erasure.ends import HISTORY, JOURNAL, LEDGER, Elsewhere, End, Kept, Term
from memcore.ledger.tables import history_metadata, journal_metadata, metadata
from memcore.ledger.webhooks import tables as webhooks

Decisions = dict[str, tuple[End, ...] | Elsewhere | Kept]

PLACES = [(metadata, LEDGER), (journal_metadata, JOURNAL), (history_metadata, HISTORY)]


@pytest.mark.parametrize(("tables", "decisions"), PLACES, ids=["ledger", "journal", "history"])
def test_each_table_has_an_end_or_a_reason(tables: MetaData, decisions: Decisions) -> None:
    assert {conversation.owners.name, webhooks.deliveries.name} <= set(metadata.tables)
    assert set(tables.tables) == set(decisions), "say in memcore/ledger/erasure/ends.py when its rows end"


def test_an_end_deletes_rows_of_its_own_table() -> None:
    for _, decisions in PLACES:
        for name, decision in decisions.items():
            assert not isinstance(decision, tuple) or {end.table.name for end in decision} == {name}


def test_every_key_that_is_named_is_one_of_the_policy() -> None:
    known = {key.name.removeprefix("memory.") for key in keys()}
    named = set[str]()
    for _, decisions in PLACES:
        for each in decisions.values():
            named |= {key for end in each for key in end.term.keys} if isinstance(each, tuple) else set()
            named |= set(each.keys) if isinstance(each, Elsewhere) else set()
    assert named <= known
    assert {key for key in known if key.startswith("records.")} <= named


@pytest.mark.parametrize(
    ("term", "days"),
    [
        (Term(max, ("records.session_days", "conversation.transcript_hours")), 2),
        (Term(max, ("records.explained_days", "consolidation.journal_days")), 60),
        (Term(min, ("records.history_days", "consolidation.journal_days")), 60),
    ],
)
def test_a_term_is_the_longest_or_the_shortest_of_its_keys(term: Term, days: int) -> None:
    given = {
        "records": {"explained_days": 30, "history_days": 90},
        "consolidation": {"journal_days": 60},
        "conversation": {"transcript_hours": 48},
    }
    assert term.length(CompanyMemoryConfig.model_validate(given)) == timedelta(days=days)
