"""A model may answer anything: nothing is raised, and nothing is written but what the guards allow."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.conversation_fixture import OWNER, ConversationFixture
from support.ledger_records import COMPANY, StoppedClock, sqlite_urls
from support.table_model import TableModel, decided, extracted, fact, rule

from memcore.conversation.extraction import ExtractedTurn, PolicyAnswer
from memcore.conversation.reconciliation import ReconciliationAnswer
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import MAX_CANDIDATES, MAX_REASON_CHARS, FactState

TEXT = "I live in Berlin, and please answer briefly"

_HOSTILE = st.sampled_from(
    ["", " ", "\0", "\x1b[2J", "\u202e", "x" * 300, "x" * 5_000, "</candidate>", "null", "日本", "a\nb", "-", "1"]
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 99) | st.floats(allow_nan=False) | _HOSTILE | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _broken(entry: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return an entry of which any field may be wrong, missing, or one too many."""
    fields = {name: st.one_of(st.just(value), st.just(value), _VALUES) for name, value in entry.items()}
    return st.fixed_dictionaries({}, optional={**fields, "more": _VALUES})


_FACT, _RULE = fact("I live in Berlin", "Berlin"), rule("please answer briefly", "Answer briefly.")
_DECISION = decided("commit_now", safety_conflict=False)["decisions"][0]
_VERDICT = {"number": 1, "action": "supersede", "known": [1], "confidence": "high"}


def _lists(*entries: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(st.one_of(_VALUES, *(_broken(entry) | st.just(entry) for entry in entries)), max_size=20), _VALUES
    )


_EXTRACTED = st.fixed_dictionaries({}, optional={"semantic": _lists(_FACT), "procedural": _lists(_RULE)}) | _VALUES
_DECIDED = st.fixed_dictionaries({}, optional={"decisions": _lists(_DECISION, {**_DECISION, "number": 2})}) | _VALUES
_RECONCILED = st.fixed_dictionaries({}, optional={"facts": _lists(_VERDICT), "rules": _lists(_VERDICT)}) | _VALUES


@given(_EXTRACTED)
def test_any_answer_is_read_entry_by_entry(answer: Any) -> None:
    if not isinstance(answer, dict):
        return
    read = ExtractedTurn.model_validate_json(json.dumps(answer))
    assert len(read.semantic) <= MAX_CANDIDATES
    assert len(read.procedural) <= MAX_CANDIDATES
    for name, whole in (("semantic", _FACT), ("procedural", _RULE)):
        entries = answer.get(name)
        if isinstance(entries, list) and len(entries) <= MAX_CANDIDATES:
            assert len(getattr(read, name)) >= entries.count(whole), "none is lost for another"
    for candidate in read.candidates:
        assert all("\0" not in str(value) for value in candidate.model_dump().values())
    again = ExtractedTurn.model_validate_json(read.model_dump_json())
    assert (again.semantic, again.procedural, again.refused) == (read.semantic, read.procedural, 0)


@given(_DECIDED)
def test_any_decision_is_read_or_refused(answer: Any) -> None:
    if isinstance(answer, dict):
        read = PolicyAnswer.model_validate_json(json.dumps(answer))
        assert all(len(line.reason) <= MAX_REASON_CHARS and "\0" not in line.reason for line in read.decisions)


@given(_RECONCILED)
def test_any_verdict_is_read_or_left_out(answer: Any) -> None:
    if isinstance(answer, dict):
        ReconciliationAnswer.model_validate_json(json.dumps(answer))


@settings(max_examples=60)
@given(first=_EXTRACTED, policy=_DECIDED, verdicts=_RECONCILED, summary=_VALUES)
async def test_a_turn_and_an_end_survive_any_answers(
    ledger_template: Path, first: Any, policy: Any, verdicts: Any, summary: Any
) -> None:
    with TemporaryDirectory() as folder:
        shutil.copytree(ledger_template, folder, dirs_exist_ok=True)
        clock = StoppedClock()
        ledger = Ledger.open(sqlite_urls(Path(folder)), clock=clock)
        talk = ConversationFixture(ledger, clock)
        talk.table.extract["I moved"] = extracted(fact("I moved to Rome", "Rome"))
        await talk.drawn("I moved to Rome")
        talk.model = TableModel(
            extract={"Berlin": first}, policy={"candidate": policy}, reconcile={"new": verdicts}, summarize=summary
        )
        turns = [await talk.drawn(TEXT) for _ in range(3)]
        await talk.end()
        assert {turn.state for turn in turns} <= {"done", "waiting"}
        everything = ledger.conversation.facts(COMPANY, OWNER, states=tuple(FactState))
        for kept in everything:
            assert kept.evidence_quote.casefold() in f"{TEXT} / I moved to Rome".casefold()
        # Nothing vanishes: what is replaced stays, and names what is there.
        ids = {kept.fact_id for kept in everything}
        assert all(kept.superseded_by in ids for kept in everything if kept.state is FactState.SUPERSEDED)
        assert "Rome" in {kept.object for kept in everything}
        ledger.close()
