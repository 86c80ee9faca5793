"""kill -9 in the middle of the work: nothing is lost, nothing is doubled, every run ends (SPEC S1)."""

import os
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from clients import ClientProcess
from support.repository import ROOT
from support.running_stack import StackAddress, clean_environ, running_stack, wait_until
from support.stored import history_events, jobs_in_hand, jobs_waiting, memory_ids
from support.thorough import sized

from examples.demo.balance import balance
from memcore.client import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.config.settings import Settings
from memcore.jobs import Queue
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run, RunState
from memcore.models.memory import MemoryCategory

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

#: Memories that one round sends, through several client processes at once.
ROUND = sized(1_000, thorough=2_500)

#: Memories that must not be acknowledged yet when the signal is sent.
BACKLOG = sized(200, thorough=500)

#: Memories of the agent whose run is interrupted; most are past their retention.
RUN_SIZE = 1_500

RUN_AGENT = "sleeper"


@dataclass
class Sent:
    """What the client processes were promised."""

    clients: list[ClientProcess] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [memory_id for client in self.clients for memory_id in client.acknowledged()]


@contextmanager
def open_ledger(settings: Settings) -> Generator[Ledger]:
    ledger = Ledger.open(settings.ledger_urls)
    try:
        yield ledger
    finally:
        ledger.close()


def send_round(stack: StackAddress, sent: Sent, name: str) -> list[ClientProcess]:
    """Let four client processes send one round's memories."""
    cut = ROUND // 10
    middle = (ROUND + 2 * cut) // 2
    shares = [("singly", range(cut)), ("singly", range(cut, 2 * cut))]
    shares += [("in-bulk", range(2 * cut, middle)), ("in-bulk", range(middle, ROUND))]
    environ = {**clean_environ(), "PYTHONPATH": str(ROOT)}
    started = []
    for number, (way, numbers) in enumerate(shares):
        promises = stack.home.parent / f"{name}-{number}.promised"
        started.append(ClientProcess(promises, stack.home, name, way, numbers, environ))
        sent.clients.append(started[-1])
    return started


def kill_in_the_middle(stack: StackAddress, sent: Sent, started: list[ClientProcess], part: str) -> None:
    """kill -9 a part while at least so many memories are not in the store, and so not acknowledged.

    It is held where it stands, in the middle of its work, until the clients have sent that many more.
    """
    pid, restarts = stack.pid(part), stack.restarts(part)
    assert pid is not None
    wait_until(lambda: jobs_in_hand(stack.settings, "store") > 0, what="jobs in the worker's hand")
    os.kill(pid, signal.SIGSTOP)
    before = len(sent.ids)
    for client in started:
        client.go_on()
    try:
        wait_until(lambda: len(sent.ids) >= before + BACKLOG, what=f"a backlog of {BACKLOG}")
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: stack.restarts(part) > restarts and stack.is_ready(part), seconds=120, what=f"{part} to be back")


def is_drained(settings: Settings) -> bool:
    fair_queues = [queue for queue in Queue if queue.startswith(Queue.STORE)]
    return not jobs_waiting(settings, *fair_queues) and not jobs_in_hand(settings, "store")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("kills") / "home") as address:
        yield address


@dataclass(frozen=True)
class MaintenanceRun:
    stored: frozenset[str]
    run_id: str


@pytest.fixture(scope="module")
def interrupted_run(stack: StackAddress) -> MaintenanceRun:
    """A run whose worker children were killed while it ran; it goes on while other tests work."""
    settings, now = stack.settings, datetime.now(UTC)
    with open_ledger(settings) as ledger, MemoryClient.from_settings(settings) as client:
        ledger.agents.put(
            AgentSpec(company=settings.company, agent_id=RUN_AGENT, retention_overrides={MemoryCategory.EPISODIC: 30})
        )
        receipt = client.import_many(
            ImportRecord(
                agent_id=RUN_AGENT,
                category=MemoryCategory.EPISODIC,
                content=f"entry {number} of the log",
                created_at=now - timedelta(days=200 if number % 10 else 1),
            )
            for number in range(RUN_SIZE)
        )
        assert all(status.state == "done" for status in client.wait(receipt.job_ids, timeout_seconds=120))
        worker = stack.pid("worker-night")
        assert worker is not None
        children = psutil.Process(worker).children()
        assert children
        run_id = client.maintain_now(RUN_AGENT, allow_large=True).job_id

        def is_running() -> bool:
            run = ledger.runs.get(run_id)
            return run is not None and run.state is RunState.RUNNING

        wait_until(is_running, what="the night to begin")
        for child in children:
            child.send_signal(signal.SIGKILL)
    return MaintenanceRun(frozenset(receipt.memory_ids), run_id)


@pytest.mark.usefixtures("interrupted_run")
def test_kills_of_the_worker_and_of_the_store_lose_nothing_and_double_nothing(stack: StackAddress) -> None:
    settings, sent = stack.settings, Sent()
    for part in ("worker-store", "store-server"):
        started = send_round(stack, sent, part)
        try:
            kill_in_the_middle(stack, sent, started, part)
        finally:
            ends = [client.end(seconds=120) for client in started]
        assert ends == [0] * len(started)
        wait_until(lambda: is_drained(settings), seconds=180, what="the store queues to drain")
    acknowledged = Counter(sent.ids)
    assert acknowledged.total() == 2 * ROUND
    assert len(acknowledged) == 2 * ROUND
    held = Counter({key: number for key, number in memory_ids(settings).items() if key in acknowledged})
    assert held == acknowledged
    events = history_events(settings)
    ours = {key: number for key, number in events.items() if key[0] in acknowledged}
    assert ours == {(memory_id, "ADD"): 1 for memory_id in acknowledged}
    with open_ledger(settings) as ledger:
        assert ledger.dead_letters.count(settings.company) == 0


def test_a_run_whose_worker_child_was_killed_ends_and_its_account_balances(
    stack: StackAddress, interrupted_run: MaintenanceRun
) -> None:
    settings = stack.settings
    with open_ledger(settings) as ledger:

        def run() -> Run:
            found = ledger.runs.get(interrupted_run.run_id)
            assert found is not None
            return found

        wait_until(lambda: run().state not in {RunState.QUEUED, RunState.RUNNING}, seconds=150, what="the night's end")
        assert run().state is RunState.DONE
        assert run().attempt >= 2
        tally = ledger.journal.tally(settings.company, RUN_AGENT)
        agents = {journal_entry.agent_id for journal_entry in ledger.journal.journal_entries(interrupted_run.run_id)}
    assert agents == {RUN_AGENT}
    assert tally.removed.total() >= RUN_SIZE * 0.9
    account = interrupted_run.stored | set(tally.created)
    live = [memory_id for memory_id in memory_ids(settings) if memory_id in account]
    assert balance(stored=interrupted_run.stored, tally=tally, live=live).is_exact
