"""kill -9 of workers while twenty people talk: each turn has its outcome, nothing is kept twice or left behind."""

from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import psutil
import pytest
from redis import Redis
from sqlalchemy import create_engine, func, select, update
from support.running_stack import StackAddress, running_stack, wait_until
from support.stored import jobs_in_hand
from support.stub_llm_process import StubLLM, stub_llm

from memcore import ids
from memcore.client.client import MemoryClient
from memcore.jobs import EndSessionPayload, ExtractPayload
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import OPEN_WORK, work_items
from memcore.ledger.work_items import WorkState
from memcore.models.conversation import FactState, Owner, resolve_owner_id
from ops.cli.session import ledger_of

pytestmark = pytest.mark.slow(because="it starts a stack, and kills its workers four times")

PEOPLE = [f"person-{number}" for number in range(20)]

NOW = datetime.now(UTC)

#: Before every lease and every message that may still arrive.
LONG_AGO = NOW - timedelta(hours=2)

POLICY = """\
memory:
  level: persistent
  llm:
    model: stub
  budgets:
    # One agent has all the talks, within a minute.
    tokens_per_agent_per_day: null
"""


def said_by(number: int) -> tuple[str, ...]:
    """Return the turns of one person's session: facts, one of them twice, one that is replaced, and what is held."""
    return (
        f"I live in Town{number}.",
        f"I like tea{number}.",
        "My sister Ida will come along, she is good with maps.",
        "Ida once walked the whole ridge alone.",
        f"I work as a baker{number}.",
        f"I like tea{number}.",
        "Could you put that as a list?",
        "Put the shopping as a list too.",
        "I cook for my neighbour Jonas on Fridays.",
        f"I live in City{number}.",
    )


def kept_of(number: int) -> dict[str, object]:
    """Return what must be kept of that session."""
    return {
        "turns": [False] * 10,
        "facts": Counter(
            {
                (f"Town{number}", "superseded", f"City{number}"): 1,
                (f"City{number}", "active", None): 1,
                (f"tea{number}", "active", None): 1,
                (f"baker{number}", "active", None): 1,
                ("Ida", "active", None): 1,
            }
        ),
        "rules": ["Write plans as lists."],
        "arcs": ["talk"],
        "held": 0,
        "became": Counter(promoted=3, dropped=1),
        "has_ended": True,
    }


@pytest.fixture(scope="module")
def model() -> Generator[StubLLM]:
    with stub_llm("--seconds", "0.1") as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: StubLLM) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("kills") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url, MEMTEND_SWEEP_SECONDS="1") as address:
        yield address


@pytest.fixture(scope="module")
def ledger(stack: StackAddress) -> Generator[Ledger]:
    with ledger_of(stack.settings) as opened:
        yield opened


def owner_of(person: str) -> Owner:
    return Owner(agent_id="guide", subject=resolve_owner_id(user_id=person))


def key_of(company: str, person: str) -> str:
    return ids.session_key(company=company, session_id="talk", **owner_of(person).model_dump())


def left(ledger: Ledger, company: str, person: str) -> dict[str, object]:
    """Return what is kept of a person's session, by what it says; of each turn whether its outcome is missing."""
    owner = owner_of(person)
    key = key_of(company, person)
    every = ledger.conversation.facts(company, owner, states=tuple(FactState))
    named = {each.fact_id: each.object for each in every}
    session = ledger.sessions.get(company, key)
    return {
        "turns": [turn.outcome is None for turn in ledger.turns.of_session(company, key)],
        "facts": Counter((each.object, each.state.value, named.get(each.superseded_by or "")) for each in every),
        "rules": [each.rule for each in ledger.conversation.rules(company, owner, states=tuple(FactState))],
        "arcs": [each.entry.session_id for each in ledger.conversation.arcs(company, owner)],
        "held": len(ledger.sessions.held(company, key)),
        "became": Counter(state for state, _ in ledger.sessions.ended_candidates(company, key).values()),
        "has_ended": session is not None and session.ended_at is not None and session.outcome is not None,
    }


@contextmanager
def killed(stack: StackAddress, name: str, *, when: Callable[[], bool]) -> Generator[None]:
    """Hold a worker that has jobs in its hand as soon as it is time, kill it after the block; it is started again.

    What it held is given up at once, as it would be when its lease and its messages run out.
    """
    part = f"worker-{name}"
    process, restarts = psutil.Process(stack.pid(part)), stack.restarts(part)

    def is_held() -> bool:
        if not when():
            return False
        process.suspend()
        if jobs_in_hand(stack.settings, name):
            return True
        process.resume()
        return False

    wait_until(is_held, what=f"jobs in the hand of {part}")
    try:
        yield
    finally:
        process.kill()
    engine = create_engine(stack.settings.ledger_urls.ledger)
    with engine.begin() as connection:
        its = work_items.c.kind.in_([ExtractPayload.task, EndSessionPayload.task, "question"])
        connection.execute(
            update(work_items).where(its, OPEN_WORK).values(lease_until=LONG_AGO, dispatch_after=LONG_AGO)
        )
    engine.dispose()
    with Redis.from_url(stack.settings.broker_url) as broker:
        index = f"unacked_index.{name}"
        for tag in cast("list[bytes]", broker.zrange(index, 0, -1)):
            broker.zadd(index, {tag: 0}, xx=True)
    wait_until(lambda: stack.restarts(part) > restarts and stack.is_ready(part), what=f"{part} to be back")


def items_of(stack: StackAddress, kind: str, state: WorkState) -> int:
    """Count the work items of a kind that are in a state."""
    engine = create_engine(stack.settings.ledger_urls.ledger)
    with engine.connect() as connection:
        which = (work_items.c.kind == kind) & (work_items.c.state == state.value)
        found = connection.execute(select(func.count()).select_from(work_items).where(which)).scalar_one()
    engine.dispose()
    return int(found)


def end(client: MemoryClient, people: list[str]) -> None:
    for person in people:
        assert client.end_conversation("guide", session_id="talk", user_id=person, at=NOW) is not None


def say(client: MemoryClient, people: list[str], places: range) -> list[str]:
    """Send turns of people, and return their ids."""
    turn_ids = list[str]()
    for person in people:
        number = PEOPLE.index(person)
        for place in places:
            receipt = client.extract_turn(
                "guide",
                session_id="talk",
                user_id=person,
                user_text=said_by(number)[place],
                turn=str(place),
                at=NOW - timedelta(minutes=30 - place),
            )
            assert receipt is not None
            turn_ids.append(receipt.turn_id)
    return turn_ids


def test_workers_that_are_killed_lose_nothing_and_keep_nothing_twice(
    stack: StackAddress, model: StubLLM, ledger: Ledger
) -> None:
    company = stack.settings.company

    def settled() -> int:
        return items_of(stack, ExtractPayload.task, WorkState.DONE)

    with MemoryClient.from_settings(stack.settings) as client:
        sent = say(client, PEOPLE, range(3))
        with killed(stack, "llm", when=lambda: settled() >= 5):
            sent += say(client, PEOPLE, range(3, 5))
        with ThreadPoolExecutor(1) as sender:
            # Beside the looks, or a worker that is quicker than they are has nothing in its hand at any.
            sending = sender.submit(say, client, PEOPLE, range(5, 10))
            with killed(stack, "store", when=lambda: True):
                sent += sending.result()
        with killed(stack, "llm", when=lambda: settled() >= 100):
            pass
        assert len(set(sent)) == 200
        wait_until(lambda: all(ledger.turns.get(company, each) for each in sent), what="all turns to be recorded")
        # Half of the sessions end while turns of theirs still wait for the model.
        end(client, PEOPLE[::2])
        wait_until(lambda: settled() == len(sent), what="all turns to be settled")
        end(client, PEOPLE[1::2])
        with killed(stack, "llm", when=lambda: items_of(stack, EndSessionPayload.task, WorkState.LEASED) > 0):
            pass
    wait_until(lambda: items_of(stack, EndSessionPayload.task, WorkState.DONE) == len(PEOPLE), what="all ends")
    expected = {person: kept_of(number) for number, person in enumerate(PEOPLE)}
    assert {person: left(ledger, company, person) for person in PEOPLE} == expected
    assert ledger.dead_letters.count(company) == 0
    bills = Counter(each["key"] for each in model.log() if each["billed_tokens"])
    assert set(bills.values()) == {1}
