"""Lineage in the ledger: which ids came and went together, known also when their content has expired."""

from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry, make_record

from memcore.ledger.journal import JournalEntry
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import CallState, Caps, NewCall, Spent
from memcore.models.archival import ArchivalMode


def _journaled(ledger: Ledger, clock: StoppedClock, journal_entry: JournalEntry, **missing: frozenset[str]) -> None:
    clock.advance(timedelta(seconds=1))
    ledger.journal.prepare(journal_entry)
    ledger.journal.settle(journal_entry.booking_id, **missing)


@pytest.fixture
def merged_and_undone(ledger: Ledger, clock: StoppedClock) -> None:
    """Three memories merged into one, taken back, with a second entry of the first run beside it."""
    maintenance_run = make_journal_entry("b1", run_id="run", incoming=("s",), outgoing=("z", "y", "x"))
    _journaled(ledger, clock, maintenance_run)
    _journaled(ledger, clock, make_journal_entry("b2", run_id="run", seq=1, outgoing=("w",), reason="enforced"))
    undo = make_journal_entry(
        "b3", run_id="undo", incoming=("z", "y", "x"), incoming_kind="restored", outgoing=("s",), reason="undone"
    )
    _journaled(ledger, clock, undo)


@pytest.mark.usefixtures("merged_and_undone")
def test_the_moves_of_memories_come_oldest_first_and_those_of_others_are_left_out(
    ledger: Ledger, clock: StoppedClock
) -> None:
    moves = ledger.lineage.moves(COMPANY, "ada", ["s", "z", "never moved"])
    moved = {memory_id: [(move.kind, move.run_id, move.reason) for move in each] for memory_id, each in moves.items()}
    assert moved == {
        "s": [("created", "run", "consolidated"), ("removed", "undo", "undone")],
        "z": [("removed", "run", "consolidated"), ("restored", "undo", "undone")],
    }
    assert moves["s"][0].settled_at == clock() - timedelta(seconds=2)
    assert ledger.lineage.moves(COMPANY, "bob", ["s"]) == {}
    assert ledger.lineage.moves("globex", "ada", ["s"]) == {}
    assert (ledger.lineage.agent_of(COMPANY, "s"), ledger.lineage.agent_of("globex", "s")) == ("ada", None)


@pytest.mark.usefixtures("merged_and_undone")
def test_ids_stay_in_the_order_in_which_they_were_journaled_when_the_content_has_expired(
    ledger: Ledger, clock: StoppedClock
) -> None:
    record = ledger.lineage.record("b1", "x")
    assert record is not None
    assert record.entry.content == make_record("x").entry.content
    before = ledger.lineage.of_run("run"), ledger.lineage.exchanges(["b1", "b3"])
    assert ledger.journal.expire(COMPANY, before=clock() + timedelta(seconds=1)) == 3

    first, second = ledger.lineage.of_run("run")

    assert (first.incoming, first.outgoing, first.is_open) == (("s",), ("z", "y", "x"), False)
    assert (second.incoming, second.outgoing, second.reason) == ((), ("w",), "enforced")
    assert (ledger.lineage.of_run("run"), ledger.lineage.exchanges(["b1", "b3"])) == before
    assert ledger.lineage.record("b1", "x") is None
    assert not ledger.lineage.moves(COMPANY, "ada", ["x"])["x"][0].has_content


def test_what_a_entry_did_not_concern_after_all_does_not_count(ledger: Ledger, clock: StoppedClock) -> None:
    journal_entry = make_journal_entry("b", incoming=("s",), outgoing=("x", "y"))
    ledger.journal.prepare(journal_entry)
    (exchange,) = ledger.lineage.of_run("run")
    assert exchange.is_open
    assert ledger.lineage.moves(COMPANY, "ada", ["x"])["x"][0].settled_at is None
    _journaled(ledger, clock, journal_entry, missing_in=frozenset({"s"}), missing_out=frozenset({"x"}))
    (exchange,) = ledger.lineage.of_run("run")
    assert (exchange.incoming, exchange.outgoing, exchange.is_open) == ((), ("y",), False)
    assert ledger.lineage.moves(COMPANY, "ada", ["s", "x"]) == {}


def test_what_lies_in_the_archive_is_told_for_its_agent(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.archive.put(COMPANY, make_record("x"), mode=ArchivalMode.EXTRACTIVE, archived_at=clock())
    assert ledger.lineage.archived(COMPANY, "ada", ["x", "y"]) == {"x"}
    assert ledger.lineage.archived(COMPANY, "bob", ["x"]) == frozenset()


def test_models_are_added_up_by_purpose_and_those_that_nobody_asked_are_left_out(ledger: Ledger) -> None:
    def ask(purpose: str, question: str, *, spent: Spent | None, caps: Caps = Caps()) -> None:  # noqa: B008  # frozen
        call = NewCall(
            company=COMPANY,
            agent_id="ada",
            run_id="run",
            question_id=question,
            purpose=purpose,
            model="small",
            most=Spent(prompt_tokens=900, completion_tokens=100, cost=1.0),
        )
        reserved = ledger.spending.reserve(call, caps=caps)
        if reserved.call_id is not None:
            ledger.spending.settle(reserved.call_id, CallState.ANSWERED, spent=spent, attempts=1)

    for question in ("q1", "q2"):
        ask("merge", question, spent=Spent(prompt_tokens=100, completion_tokens=20, cost=0.25))
    ask("judge", "q3", spent=Spent(prompt_tokens=5, completion_tokens=1, cost=0.0))
    ask("merge", "q4", spent=None, caps=Caps(tokens=0))

    found = ledger.lineage.models(COMPANY, "run")

    assert [(use.purpose, use.model, use.calls, use.tokens, use.cost) for use in found] == [
        ("judge", "small", 1, 6, 0.0),
        ("merge", "small", 2, 240, 0.5),
    ]
    assert ledger.lineage.models("globex", "run") == ()
