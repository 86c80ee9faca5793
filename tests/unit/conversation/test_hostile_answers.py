"""A model may answer anything: nothing is raised, and nothing is written but what the guards allow."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from support.conversation_fixture import OWNER, ConversationFixture
from support.ledger_records import COMPANY, StoppedClock, sqlite_urls
from support.table_model import TableModel, decided, extracted, fact, rule
from support.thorough import examples

from memcore.conversation.ending import MAX_TOPICS, SummaryForm
from memcore.conversation.extraction import ExtractedTurn, PolicyAnswer
from memcore.conversation.reconciliation import ReconciliationAnswer
from memcore.jobs import Done
from memcore.ledger.ledger import Ledger
from memcore.llm.reading import UnreadAnswerError, read_form
from memcore.models.base import UNSEEN
from memcore.models.conversation import (
    MAX_CANDIDATES,
    MAX_REASON_CHARS,
    MAX_SUMMARY_CHARS,
    MAX_TERM_CHARS,
    Fact,
    FactState,
    ProfileRule,
)

Form = TypeVar("Form", bound=BaseModel)

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


def _judged(*actions: str) -> st.SearchStrategy[Any]:
    """Return verdicts in good form, most of them: on what is there or is not, once or against each other."""
    verdict = st.fixed_dictionaries(
        {
            "number": st.sampled_from((1, 1, 1, 2, 0)),
            "action": st.sampled_from(actions),
            "known": st.lists(st.sampled_from((1, 1, 2, 2, 3)), max_size=3),
            "confidence": st.sampled_from(("high", "medium", "low")),
        }
    )
    return st.lists(verdict | verdict | verdict | _VALUES, min_size=1, max_size=3)


_JUDGED = st.fixed_dictionaries(
    {"facts": _judged("supersede", "bump", "coexist"), "rules": _judged("replace", "skip", "append")}
)
_SUMMED_UP = (
    st.fixed_dictionaries({}, optional={"summary": _VALUES | st.text(), "topics": _VALUES | st.lists(_VALUES)})
    | _VALUES
    | st.just('{"summary": "half a character: \\ud83d"}')
)


def _read(answer: Any, form: type[Form]) -> Form | None:
    """Return what is read of an answer; None where it is refused."""
    try:
        return read_form(json.dumps(answer), form)
    except UnreadAnswerError:
        return None


def _nothing_is_lost(answer: Any, entries: dict[str, dict[str, Any]], *, is_read: bool) -> None:
    """An answer with a whole entry is read, and one without any list is not."""
    lists = {name: answer[name] for name in entries if isinstance(answer, dict) and isinstance(answer.get(name), list)}
    if any(entry in lists.get(name, []) for name, entry in entries.items()):
        assert is_read
    if isinstance(answer, dict) and not set(answer) & {*entries, "rules"}:
        assert not is_read, "no list is no empty list"


@given(_EXTRACTED)
def test_any_answer_is_read_entry_by_entry(answer: Any) -> None:
    read = _read(answer, ExtractedTurn)
    if read is None or not isinstance(answer, dict):
        _nothing_is_lost(answer, {"semantic": _FACT, "procedural": _RULE}, is_read=read is not None)
        return
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
    read = _read(answer, PolicyAnswer)
    _nothing_is_lost(answer, {"decisions": _DECISION}, is_read=read is not None)
    if read is not None:
        assert all(len(line.reason) <= MAX_REASON_CHARS and "\0" not in line.reason for line in read.decisions)


@given(_RECONCILED)
def test_any_verdict_is_read_or_left_out(answer: Any) -> None:
    read = _read(answer, ReconciliationAnswer)
    _nothing_is_lost(answer, {"facts": _VERDICT}, is_read=read is not None)


@given(_SUMMED_UP)
def test_any_summary_is_read_or_refused_whole(answer: Any) -> None:
    if not isinstance(answer, dict):
        return
    try:
        read = SummaryForm.model_validate_json(json.dumps(answer))
    except ValidationError:
        said = answer.get("summary")
        assert not isinstance(said, str) or not said.isprintable() or not said.strip()
        return
    assert 0 < len(read.summary) <= MAX_SUMMARY_CHARS
    assert len(read.topics) <= MAX_TOPICS
    assert all(0 < len(topic) <= MAX_TERM_CHARS for topic in read.topics)
    assert not any(UNSEEN.search(text) for text in (read.summary, *read.topics))


@settings(max_examples=60)
@given(first=_EXTRACTED, policy=_DECIDED, verdicts=_RECONCILED, summary=_SUMMED_UP)
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
        assert "Rome" in {kept.object for kept in everything}
        nothing_vanished(ledger)
        ledger.close()


@settings(max_examples=examples(25))
@given(in_turn=_JUDGED, at_end=_JUDGED, summary=_SUMMED_UP)
async def test_what_is_known_survives_any_reconciliation_and_any_summary(
    ledger_template: Path, in_turn: Any, at_end: Any, summary: Any
) -> None:
    """New facts and rules meet those that are known, in a turn and at an end: the model judges as it likes."""
    moved = extracted(fact("I live in Berlin", "Berlin"), rules=(rule("answer briefly", "Answer briefly."),))
    paris = extracted(fact("I live in Paris", "Paris"), rules=(rule("answer at length", "Answer at length."),))
    held = decided("commit_at_session_end", "commit_at_session_end")
    with TemporaryDirectory() as folder:
        shutil.copytree(ledger_template, folder, dirs_exist_ok=True)
        clock = StoppedClock()
        ledger = Ledger.open(sqlite_urls(Path(folder)), clock=clock)
        talk = ConversationFixture(ledger, clock)
        talk.table.extract["Rome"] = extracted(fact("I live in Rome", "Rome"), rules=(rule("be kind", "Be kind."),))
        await talk.drawn("I live in Rome, and be kind", session_id="s-0")
        talk.table.extract = {"Berlin": moved, "Paris": paris}
        talk.table.policy, talk.table.summarize = {"Paris": held}, summary
        talk.table.reconcile["new-entry"] = in_turn
        turn = await talk.drawn(TEXT)
        assert turn.state == "done"
        talk.table.reconcile["new-entry"] = at_end
        for _ in range(2):
            await talk.drawn("I live in Paris now, so answer at length")
        assert isinstance(await talk.end(), Done)
        assert talk.table.purposes.count("reconcile") >= 2, "both were judged"
        assert (talk.held(), len(talk.summaries()) <= 1) == ([], True)
        assert not any(UNSEEN.search(each) or not each.strip() for each in talk.summaries())
        nothing_vanished(ledger)
        facts = ledger.conversation.facts(COMPANY, OWNER, states=tuple(FactState))
        assert {"Rome"} <= {each.object for each in facts} <= {"Rome", "Berlin", "Paris"}
        assert all(each.state in {FactState.ACTIVE, FactState.SUPERSEDED} for each in facts)
        ledger.close()


def nothing_vanished(ledger: Ledger) -> None:
    """What is replaced stays, and leads to what is there: of facts and of rules, and never in a circle."""
    facts = ledger.conversation.facts(COMPANY, OWNER, states=tuple(FactState))
    rules = ledger.conversation.rules(COMPANY, OWNER, states=tuple(FactState))
    every: dict[str, Fact | ProfileRule] = {each.fact_id: each for each in facts}
    every |= {each.rule_id: each for each in rules}
    for kept in every.values():
        seen = [kept]
        while seen[-1].state is FactState.SUPERSEDED:
            seen.append(every[str(seen[-1].superseded_by)])
            assert len(seen) <= len(every), "a circle"
        assert {type(each) for each in seen} == {type(kept)}
