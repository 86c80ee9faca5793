"""Eight workers with turns of one person: every fact is written once, and each decides from what the others wrote."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from support.conversation_fixture import OWNER, ConversationFixture
from support.ledger_records import COMPANY, StoppedClock
from support.table_model import TableModel, decided, extracted, fact

from memcore.config.urls import LedgerUrls
from memcore.jobs import Done, Outcome, TurnPayload
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import FactState

WORKERS = 8
CITIES = ("Berlin", "Rome", "Paris", "Oslo", "Lima", "Cairo", "Tokyo", "Perth")


@pytest.fixture
def talk(urls: LedgerUrls) -> Iterator[ConversationFixture]:
    clock = StoppedClock()
    ledger = Ledger.open(urls, clock=clock)
    yield ConversationFixture(ledger, clock)
    ledger.close()


def at_once(*steps: Callable[[], Outcome]) -> list[Outcome]:
    """Run the steps in threads that begin together."""
    start = threading.Barrier(len(steps))

    def run(step: Callable[[], Outcome]) -> Outcome:
        start.wait()
        return step()

    with ThreadPoolExecutor(len(steps)) as threads:
        return list(threads.map(run, steps))


def model(**answers: Any) -> TableModel:
    return TableModel(extract={city: extracted(fact(f"I live in {city}", city)) for city in CITIES}, **answers)


def extracting(talk: ConversationFixture, turn_id: str, **answers: Any) -> Callable[[], Outcome]:
    service = talk.extraction(model=model(**answers))
    return lambda: asyncio.run(service.run(turn_id))


def test_no_fact_is_lost_and_the_versions_have_no_gap(talk: ConversationFixture) -> None:
    turns = [talk.said(f"I live in {city}", session_id=f"s-{number}") for number, city in enumerate(CITIES)]
    outcomes = at_once(*(extracting(talk, turn_id) for turn_id in turns))
    assert all(isinstance(outcome, Done) for outcome in outcomes), outcomes
    kept = talk.facts()
    assert sorted(kept) == sorted(CITIES)
    assert sorted(each.version for each in kept.values()) == list(range(1, WORKERS + 1))
    assert talk.ledger.conversation.state(COMPANY, OWNER).version == WORKERS


def test_each_sees_what_the_others_wrote(talk: ConversationFixture) -> None:
    """Each replaces all that it is shown: one place is left, the one that was said last, whoever came first."""

    def replace_all(content: str) -> dict[str, Any]:
        known = list(range(1, content.count("<known-entry") + 1))
        return {"facts": [{"number": 1, "action": "supersede", "known": known, "confidence": "high"}]}

    answers = {"reconcile": {"new": replace_all}}
    turns = [talk.said(f"I live in {city}", session_id=f"s-{number}") for number, city in enumerate(CITIES)]
    outcomes = at_once(*(extracting(talk, turn_id, **answers) for turn_id in turns))
    assert all(isinstance(outcome, Done) for outcome in outcomes), outcomes
    assert list(talk.facts()) == [CITIES[-1]]
    replaced = talk.facts(FactState.SUPERSEDED)
    assert sorted(replaced) == sorted(CITIES[:-1])
    ids = {each.fact_id for each in (*replaced.values(), *talk.facts().values())}
    assert all(each.superseded_by in ids for each in replaced.values())


def test_the_same_words_in_all_turns_are_one_fact(talk: ConversationFixture) -> None:
    turns = [talk.said("I live in Berlin", session_id=f"s-{number}") for number in range(WORKERS)]
    outcomes = at_once(*(extracting(talk, turn_id) for turn_id in turns))
    facts = [outcome.facts for outcome in outcomes if isinstance(outcome, Done)]
    assert (sum(each["writes"] for each in facts), sum(each["bumps"] for each in facts)) == (1, WORKERS - 1)
    assert list(talk.facts()) == ["Berlin"]


def test_one_turn_in_eight_hands_is_asked_about_once(talk: ConversationFixture) -> None:
    turn_id, shared = talk.said("I live in Berlin"), model()
    talk.model = shared
    outcomes = at_once(*(lambda: asyncio.run(talk.extraction().run(turn_id)) for _ in range(WORKERS)))
    assert sum(isinstance(outcome, Done) for outcome in outcomes) == 1
    assert (shared.purposes, list(talk.facts())) == (["extract", "policy"], ["Berlin"])


def test_ends_of_sessions_and_turns_of_others_do_not_undo_each_other(talk: ConversationFixture) -> None:
    held = {"policy": {city: decided("commit_at_session_end") for city in CITIES[:4]}}
    for number, city in enumerate(CITIES[:4]):
        for _ in range(2):
            asyncio.run(
                talk.extraction(model=model(**held)).run(talk.said(f"I live in {city}", session_id=f"s-{number}"))
            )
        talk.close(f"s-{number}")
    turns = [talk.said(f"I live in {city}", session_id=f"t-{city}") for city in CITIES[4:]]

    def ending(number: int) -> Callable[[], Outcome]:
        service = talk.ending(model=model())
        return lambda: asyncio.run(service.run(talk.key(f"s-{number}")))

    outcomes = at_once(*map(ending, range(4)), *(extracting(talk, turn_id) for turn_id in turns))
    assert all(isinstance(outcome, Done) for outcome in outcomes), outcomes
    assert sorted(talk.facts()) == sorted(CITIES)
    assert sorted(each.version for each in talk.facts().values()) == list(range(1, WORKERS + 1))


def test_a_request_to_forget_among_the_turns_of_its_session_leaves_none_of_what_was_said_before(
    talk: ConversationFixture,
) -> None:
    turns = [talk.said(f"I live in {city}") for city in CITIES[:-1]]
    forget = talk.payload("forget what I said")
    at_once(lambda: talk.record(forget), *(extracting(talk, turn_id) for turn_id in turns))
    assert (talk.facts(), talk.held()) == ({}, [])


def test_turns_and_the_workers_of_their_sessions_end_wait_for_each_other_in_one_order(
    talk: ConversationFixture,
) -> None:
    """On PostgreSQL two transactions that lock in different orders stop each other."""
    talk.said("hello")
    key, sessions = talk.key(), talk.ledger.sessions
    payloads = [[talk.payload(f"{number}", turn_id=f"{hand}/{number}") for number in range(40)] for hand in range(3)]

    def recording(mine: list[TurnPayload]) -> Callable[[], Outcome]:
        def run() -> Outcome:
            for payload in mine:
                talk.record(payload)
            return Done()

        return run

    def claiming() -> Outcome:
        for _ in range(60):
            claimed = sessions.claim(COMPANY, key, lease=timedelta(minutes=1))
            if claimed is not None and claimed.token is not None:
                sessions.release(COMPANY, key, claimed.token)
        return Done()

    def closing() -> Outcome:
        for _ in range(60):
            talk.close()
        return Done()

    outcomes = at_once(*map(recording, payloads), claiming, claiming, closing)
    assert outcomes == [Done()] * 6
    assert talk.session().turns == 1 + sum(map(len, payloads))
