"""kill -9 in the middle of the work: nothing is lost, nothing is doubled, every night ends (SPEC S1)."""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from holdings import history_events, jobs_in_hand, jobs_waiting, memory_ids
from stacks import StackAddress, running_stack, wait_until

from memcore.client import MemoryClient
from memcore.client.envelope import ImportRecord
from memcore.config.settings import Settings
from memcore.jobs.queues import Queue
from memcore.ledger.agent import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.ledger.run import Run, RunState
from memcore.models import MemoryCategory, MemoryStoreRequest
from ops.demo.balance import balance

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

#: Memories that one round sends, through several clients at once.
ROUND = 2_500

#: Memories that must not be acknowledged yet when the signal is sent.
BACKLOG = 500

#: Memories of the agent whose night is interrupted; most are past their retention.
NIGHT_SIZE = 1_500

NIGHT_AGENT = "sleeper"


@dataclass
class Sent:
    """What the clients were promised."""

    ids: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, ids: tuple[str, ...]) -> None:
        with self.lock:
            self.ids.extend(ids)

    @property
    def count(self) -> int:
        with self.lock:
            return len(self.ids)


@contextmanager
def open_ledger(settings: Settings) -> Generator[Ledger]:
    ledger = Ledger.open(settings.ledger_urls)
    try:
        yield ledger
    finally:
        ledger.close()


def request(name: str, number: int) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"{name}: fact number {number} of the day")


def one_by_one(settings: Settings, sent: Sent, name: str, numbers: range) -> None:
    with MemoryClient.from_settings(settings) as client:
        for number in numbers:
            sent.add(client.store(f"agent-{number % 7}", request(name, number), track=False).memory_ids)


def in_bulk(settings: Settings, sent: Sent, name: str, numbers: range) -> None:
    sizes = random.Random(name)
    at = numbers.start
    with MemoryClient.from_settings(settings) as client:
        while at < numbers.stop:
            end = min(numbers.stop, at + sizes.randint(1, 60))
            batch = [request(name, number) for number in range(at, end)]
            sent.add(client.store_many(f"agent-{at % 7}", batch, track=False).memory_ids)
            at = end


def send_round(settings: Settings, sent: Sent, name: str) -> list[threading.Thread]:
    """Let four clients send one round's memories."""
    cut = ROUND // 10
    shares = [(one_by_one, range(cut)), (one_by_one, range(cut, 2 * cut))]
    middle = (ROUND + 2 * cut) // 2
    shares += [(in_bulk, range(2 * cut, middle)), (in_bulk, range(middle, ROUND))]
    threads = [threading.Thread(target=work, args=(settings, sent, name, numbers)) for work, numbers in shares]
    for thread in threads:
        thread.start()
    return threads


def kill_in_the_middle(stack: StackAddress, sent: Sent, base: int, part: str) -> None:
    """kill -9 a part while at least so many memories are not in the store, and so not acknowledged."""

    def is_behind() -> bool:
        # sent is read first: what is written meanwhile makes the backlog look smaller, never larger
        return sent.count - (memory_ids(stack.settings).total() - base) >= BACKLOG

    wait_until(is_behind, what=f"a backlog of {BACKLOG}")
    pid, before = stack.pid(part), stack.restarts(part)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: stack.restarts(part) > before and stack.is_ready(part), what=f"{part} to be back")


def is_drained(settings: Settings) -> bool:
    lanes = [queue for queue in Queue if queue.startswith(Queue.STORE)]
    return not jobs_waiting(settings, *lanes) and not jobs_in_hand(settings, "store")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("kills") / "home") as address:
        yield address


@dataclass(frozen=True)
class Night:
    stored: frozenset[str]
    run_id: str


@pytest.fixture(scope="module")
def wounded_night(stack: StackAddress) -> Night:
    """A night whose worker children were killed while it ran; it goes on while other tests work."""
    settings, now = stack.settings, datetime.now(UTC)
    with open_ledger(settings) as ledger, MemoryClient.from_settings(settings) as client:
        ledger.agents.put(
            AgentSpec(company=settings.company, agent_id=NIGHT_AGENT, retention_overrides={MemoryCategory.EPISODIC: 30})
        )
        receipt = client.import_many(
            ImportRecord(
                agent_id=NIGHT_AGENT,
                category=MemoryCategory.EPISODIC,
                content=f"entry {number} of the log",
                created_at=now - timedelta(days=200 if number % 10 else 1),
            )
            for number in range(NIGHT_SIZE)
        )
        assert all(status.state == "done" for status in client.wait(receipt.job_ids, timeout_seconds=60))
        worker = stack.pid("worker-night")
        assert worker is not None
        children = psutil.Process(worker).children()
        assert children
        run_id = client.maintain_now(NIGHT_AGENT, allow_large=True).job_id

        def is_running() -> bool:
            run = ledger.runs.get(run_id)
            return run is not None and run.state is RunState.RUNNING

        wait_until(is_running, what="the night to begin")
        for child in children:
            child.send_signal(signal.SIGKILL)
    return Night(frozenset(receipt.memory_ids), run_id)


@pytest.mark.usefixtures("wounded_night")
def test_kills_of_the_worker_and_of_the_store_lose_nothing_and_double_nothing(stack: StackAddress) -> None:
    settings, sent = stack.settings, Sent()
    for part in ("worker-store", "store-server"):
        base = memory_ids(settings).total() - sent.count
        threads = send_round(settings, sent, part)
        kill_in_the_middle(stack, sent, base, part)
        for thread in threads:
            thread.join()
        wait_until(lambda: is_drained(settings), seconds=120, what="the store queues to drain")
    assert sent.count == 2 * ROUND
    promised = Counter(sent.ids)
    assert len(promised) == 2 * ROUND
    held = Counter({key: number for key, number in memory_ids(settings).items() if key in promised})
    assert held == promised
    events = history_events(settings)
    ours = {key: number for key, number in events.items() if key[0] in promised}
    assert ours == {(memory_id, "ADD"): 1 for memory_id in promised}
    with open_ledger(settings) as ledger:
        assert ledger.dead_letters.count(settings.company) == 0


def test_a_night_whose_worker_child_was_killed_ends_and_its_account_balances(
    stack: StackAddress, wounded_night: Night
) -> None:
    settings = stack.settings
    with open_ledger(settings) as ledger:

        def run() -> Run:
            found = ledger.runs.get(wounded_night.run_id)
            assert found is not None
            return found

        wait_until(lambda: run().state not in {RunState.QUEUED, RunState.RUNNING}, seconds=150, what="the night's end")
        assert run().state is RunState.DONE
        assert run().attempt >= 2
        tally = ledger.journal.tally(settings.company, NIGHT_AGENT)
        agents = {booking.agent_id for booking in ledger.journal.bookings(wounded_night.run_id)}
    assert agents == {NIGHT_AGENT}
    assert tally.removed.total() >= NIGHT_SIZE * 0.9
    account = wounded_night.stored | set(tally.created)
    live = [memory_id for memory_id in memory_ids(settings) if memory_id in account]
    assert balance(stored=wounded_night.stored, tally=tally, live=live).is_exact
