"""A crash at every call on the way of a conversation, and before every statement of its three transactions.

Each fact, each rule and each summary is there once, nothing that is held gets lost, and no answer is billed twice.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.conversation_fixture import OWNER, SUBJECT, ConversationFixture
from support.fault_injection import Crash, Faults, crash_points, crashing
from support.ledger_records import COMPANY, StoppedClock, copied_urls
from support.table_model import TableModel, decided, extracted, fact, rule

from memcore.config.urls import LedgerUrls
from memcore.conversation.turns import TurnRecorder
from memcore.jobs import EndSessionPayload, ExtractPayload, Outcome, TurnPayload
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import FactState
from memcore.models.memory import ConsolidationInterval

#: A turn that commits, two that are promoted with it at the end, and one of another session that replaces.
SAID = (
    ("s-1", "I live in Berlin"),
    ("s-1", "I like tea"),
    ("s-1", "I like tea, and be brief"),
    ("s-2", "I live in Rome"),
)


def model() -> TableModel:
    tea = fact("I like tea", "tea", category="preference", predicate="LIKES")
    return TableModel(
        extract={
            "Berlin": extracted(fact("I live in Berlin", "Berlin")),
            "brief": extracted(tea, rules=(rule("be brief", "Answer briefly."),)),
            "tea": extracted(tea),
            "Rome": extracted(fact("I live in Rome", "Rome")),
        },
        policy={"brief": decided("commit_at_session_end", "commit_now"), "tea": decided("commit_at_session_end")},
        reconcile={"Rome": {"facts": [{"number": 1, "action": "supersede", "known": [1], "confidence": "high"}]}},
    )


def payloads(clock: StoppedClock) -> list[TurnPayload]:
    return [
        TurnPayload(
            company=COMPANY,
            agent_id="ada",
            subject=SUBJECT,
            session_id=session_id,
            turn_id=f"turn-{number}",
            user_text=text,
            at=clock.now + timedelta(seconds=number),
        )
        for number, (session_id, text) in enumerate(SAID)
    ]


async def lived(talk: ConversationFixture, sent: list[TurnPayload], faults: Faults) -> None:
    """Deliver every message, then carry out what is due until all has ended."""
    ledger = faults.ledger(talk.ledger)
    recorder = TurnRecorder(ledger, talk.config, level=talk.level, interval=ConsolidationInterval.DAILY)
    for payload in sent:
        recorder.record(payload)
    given: dict[str, Any] = {
        "ledger": ledger,
        "backend": faults.backend(talk.backend),
        "model": faults.watched(talk.model, "model"),
    }
    run: dict[str, Callable[[str], Awaitable[Outcome]]] = {
        ExtractPayload.task: talk.extraction(**given).run,
        EndSessionPayload.task: talk.ending(**given).run,
    }
    for _ in range(15):
        talk.clock.advance(timedelta(minutes=3))
        for item in talk.ledger.work.take_due(company=COMPANY, limit=99):
            await run[item.kind](item.key)


def left(ledger: Ledger) -> dict[str, Any]:
    """Return what is kept, by what it says."""
    every = ledger.conversation.facts(COMPANY, OWNER, states=tuple(FactState))
    named = {each.fact_id: each.object for each in every}
    arcs = ledger.conversation.arcs(COMPANY, OWNER)
    keys = [talk.session_key for talk in ledger.sessions.page(COMPANY, OWNER)]
    return {
        "facts": sorted((each.object, each.state.value, named.get(each.superseded_by or "")) for each in every),
        "rules": [each.rule for each in ledger.conversation.rules(COMPANY, OWNER)],
        "arcs": [each.entry.session_id for each in arcs],
        "vectors": [each.embedded is not None for each in (*ledger.conversation.searchable(COMPANY, OWNER), *arcs)],
        "held": [len(ledger.sessions.held(COMPANY, key)) for key in keys],
        "ended": [
            sorted(state for state, _ in ledger.sessions.ended_candidates(COMPANY, key).values()) for key in keys
        ],
        "turns": [session.turns for session in ledger.sessions.page(COMPANY, OWNER)],
        "version": ledger.conversation.state(COMPANY, OWNER).version,
        "open": ledger.conversation.counts(COMPANY, OWNER).waiting_turns,
    }


WHOLE = {
    "facts": [("Berlin", "superseded", "Rome"), ("Rome", "active", None), ("tea", "active", None)],
    "rules": ["Answer briefly."],
    "arcs": ["s-1"],
    "vectors": [True, True, True],
    "held": [0, 0],
    "ended": [[], ["promoted", "promoted"]],
    "turns": [1, 3],
    "version": 4,
    "open": 0,
}


def a_world(template: Path, folder: Path) -> ConversationFixture:
    clock = StoppedClock()
    return ConversationFixture(Ledger.open(copied_urls(template, folder), clock=clock), clock, model())


@pytest.mark.slow(because="it lives some fifty lives of a conversation")
def test_a_crash_at_any_call_costs_nothing_and_repeats_nothing(ledger_template: Path, tmp_path: Path) -> None:
    counted = Faults()
    first = a_world(ledger_template, tmp_path / "first")
    asyncio.run(lived(first, payloads(first.clock), counted))
    assert left(first.ledger) == WHOLE
    first.ledger.close()
    points = crash_points(counted.calls)
    assert len(points) >= 20
    for point in points:
        folder = tmp_path / str(point)
        talk = a_world(ledger_template, folder)
        sent, faults = payloads(talk.clock), Faults(point)
        with pytest.raises(Crash):
            asyncio.run(lived(talk, sent, faults))
        asyncio.run(lived(talk, sent, Faults()))
        where = " > ".join(faults.calls[max(0, point - 1) : point + 1])
        assert left(talk.ledger) == WHOLE, f"after a crash before {where}"
        table: Any = talk.model
        assert set(table.paid.values()) == {1}
        talk.ledger.close()
        shutil.rmtree(folder)


@pytest.fixture
def talk(urls: LedgerUrls) -> Iterator[ConversationFixture]:
    clock = StoppedClock()
    ledger = Ledger.open(urls, clock=clock)
    yield ConversationFixture(ledger, clock, model())
    ledger.close()


def crashed_at_each_statement(
    talk: ConversationFixture, monkeypatch: pytest.MonkeyPatch, work: Any, name: str, step: Callable[[], Any]
) -> Iterator[int]:
    """Crash before each statement of a repository's call in turn, until the step passes; yield after each crash."""
    usual, statement = getattr(work, name), 0
    with crashing(talk.ledger) as crashes:

        def crash(*args: Any, **given: Any) -> Any:
            with crashes.at(statement):
                return usual(*args, **given)

        monkeypatch.setattr(work, name, crash)
        while True:
            try:
                step()
            except Crash:
                yield statement
                statement += 1
                talk.clock.advance(timedelta(minutes=1))
            else:
                return


def test_recording_a_turn_is_all_or_nothing(talk: ConversationFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(talk.drawn("I live in Berlin"))
    asyncio.run(talk.drawn("I like tea"))
    payload = talk.payload("forget what I said")

    def seen() -> Any:
        return talk.session().turns, sorted(talk.facts()), talk.held(), talk.turn("turn-001").user_text

    before = seen()
    assert before == (2, ["Berlin"], ["tea"], "I live in Berlin")
    crashes = list[int]()
    turns = talk.ledger.turns
    for statement in crashed_at_each_statement(talk, monkeypatch, turns, "record", lambda: talk.record(payload)):
        crashes.append(statement)
        assert seen() == before, statement
    assert len(crashes) >= 10
    assert seen() == (3, [], [], None)


def test_the_outcome_of_a_turn_is_all_or_nothing(talk: ConversationFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(talk.drawn("I live in Berlin"))
    tea = fact("I like tea", "tea", category="preference", predicate="LIKES")
    table: Any = talk.model
    brief = rule("be brief", "Answer briefly.")
    table.extract = {"Rome": extracted(fact("I live in Rome", "Rome"), tea, rules=(brief,))}
    table.policy = {"Rome": decided("commit_now", "commit_at_session_end", "commit_now")}
    turn_id = talk.said("I live in Rome, I like tea, and be brief")

    def seen() -> Any:
        return sorted(talk.facts()), sorted(talk.rules()), talk.held(), talk.turn(turn_id).outcome is None

    before, crashes = seen(), list[int]()
    assert before == (["Berlin"], [], [], True)

    def step() -> None:
        asyncio.run(talk.extraction().run(turn_id))

    for statement in crashed_at_each_statement(talk, monkeypatch, talk.ledger.turns, "settle", step):
        crashes.append(statement)
        assert seen() == before, statement
    assert len(crashes) >= 10
    assert seen() == (["Rome"], ["Answer briefly."], ["tea"], False)
    assert set(table.paid.values()) == {1}


def test_the_end_of_a_session_is_all_or_nothing(talk: ConversationFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("I like tea", "I like tea", "I like tea"):
        asyncio.run(talk.drawn(text))
    talk.close()

    def seen() -> Any:
        return sorted(talk.facts()), talk.held(), talk.summaries(), talk.session().outcome is None

    before, crashes = seen(), list[int]()
    assert before == ([], ["tea"] * 3, [], True)

    def step() -> None:
        asyncio.run(talk.ending().run(talk.key()))

    for statement in crashed_at_each_statement(talk, monkeypatch, talk.ledger.sessions, "settle", step):
        crashes.append(statement)
        assert seen() == before, statement
    assert len(crashes) >= 10
    assert seen() == (["tea"], [], ["They talked."], False)
    assert talk.session().state == "done"
