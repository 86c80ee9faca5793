"""Several processes on one ledger: claims are exclusive, transactions are whole, a fork is harmless."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry

from examples.demo.balance import tally_of
from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, Run, RunState
from memcore.models.memory import ConsolidationInterval

HERE = Path(__file__).parent
CLAIMERS = 8


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder) for folder in (HERE.parents[2], HERE.parents[1]))}


@contextmanager
def _started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
        start_new_session=True,
    )
    try:
        with process:
            yield process
    finally:
        # Whatever went wrong here: its children go too.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _race(urls: LedgerUrls, what: str) -> list[str]:
    with _started(str(HERE / "claimer.py"), urls.ledger, urls.journal, str(CLAIMERS), what) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(CLAIMERS)] == ["ready\n"] * CLAIMERS
        got, _ = process.communicate(timeout=120)
        assert process.returncode == 0
    return got.split()


def test_eight_schedulers_take_each_due_agent_once(ledger: Ledger, urls: LedgerUrls, clock: StoppedClock) -> None:
    agents = [f"agent-{number}" for number in range(200)]
    ledger.agents.register(COMPANY, agents, interval=ConsolidationInterval.DAILY)
    for agent_id in agents:
        ledger.agents.set_due(COMPANY, agent_id, clock())
    got = _race(urls, "due")
    assert len(got) == len(set(got)) == len(agents)
    runs = ledger.runs.list(COMPANY, limit=1000)
    assert {run.run_id for run in runs} == set(got)
    assert {run.agent_id for run in runs} == set(agents)


def test_of_eight_workers_one_gets_the_run(ledger: Ledger, urls: LedgerUrls, clock: StoppedClock) -> None:
    run = ledger.runs.create(NewRun(company=COMPANY, agent_id="ada", planned_at=clock()))
    assert run is not None
    tokens = _race(urls, run.run_id)
    claimed = ledger.runs.get(run.run_id)
    assert claimed is not None
    assert tokens == [claimed.token]
    assert claimed.attempt == 1


def test_of_eight_undos_one_takes_the_place_of_the_run_that_waits(
    ledger: Ledger, urls: LedgerUrls, clock: StoppedClock
) -> None:
    maintenance_run = ledger.runs.create(NewRun(company=COMPANY, agent_id="ada", planned_at=clock()))
    assert maintenance_run is not None
    claimed = ledger.runs.claim(maintenance_run.company, maintenance_run.run_id, lease=timedelta(minutes=1))
    assert claimed is not None
    assert claimed.token is not None
    ledger.runs.release(maintenance_run.run_id, claimed.token, reason="paused", wake_at=clock() + timedelta(days=1))
    got = _race(urls, "undo")
    active = ledger.runs.active(COMPANY, "ada")
    assert active is not None
    assert got == [active.run_id]
    states = {run.run_id: run.state for run in ledger.runs.list(COMPANY)}
    assert states == {maintenance_run.run_id: RunState.SKIPPED, active.run_id: RunState.QUEUED}


def test_threads_that_write_at_once_all_get_through(ledger: Ledger) -> None:
    failures: list[Exception] = []

    def write(agent_id: str) -> None:
        try:
            for seq in range(10):
                name = f"{agent_id}-{seq}"
                ledger.journal.prepare(
                    make_journal_entry(name, run_id=agent_id, agent_id=agent_id, seq=seq, outgoing=(f"{name}-m",))
                )
                ledger.journal.settle(name)
                ledger.agents.register(COMPANY, [name], interval=ConsolidationInterval.DAILY)
        except Exception as error:  # noqa: BLE001  # handed to the test, which shows it
            failures.append(error)

    threads = [threading.Thread(target=write, args=(f"agent-{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(tally_of(ledger, COMPANY, f"agent-{number}").removed.total() == 10 for number in range(6))
    assert ledger.agents.count(COMPANY) == 60


def test_a_writer_killed_anywhere_leaves_all_or_nothing(ledger: Ledger, urls: LedgerUrls, clock: StoppedClock) -> None:
    ledger.journal.prepare(make_journal_entry("before", run_id="before", outgoing=("back",)))
    ledger.journal.settle("before")
    sent = {memory_id: clock() for memory_id in ("back", "gone", "too")}
    deaths = 0
    with _started(str(HERE / "killed_writer.py"), urls.journal) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            process.stdin.write(f"{deaths}\n")
            process.stdin.flush()
            status = process.stdout.readline().strip()
            if status != "9":
                break
            deaths += 1
            assert ledger.journal.open_entries("run") == ()
            assert ledger.journal.next_seq("run") == 0
            assert ledger.journal.tombstoned(sent) == {"back"}
    assert status == "0"
    # Entry, records, tombstones set, tombstones cleared, commit; the dialect may add its BEGIN.
    assert deaths >= 5
    (journal_entry,) = ledger.journal.open_entries("run")
    assert journal_entry.incoming_ids == {"back"}
    assert journal_entry.outgoing_ids == {"gone", "too"}
    assert ledger.journal.tombstoned(sent) == {"gone", "too"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_ledger_opened_before_a_fork_serves_parent_and_children(ledger: Ledger, clock: StoppedClock) -> None:
    def create(agent_id: str) -> Run | None:
        return ledger.runs.create(NewRun(company=COMPANY, agent_id=agent_id, planned_at=clock()))

    assert create("parent before") is not None
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            # No return into pytest from here, whatever happens.
            status = 1
            try:
                status = 0 if all(create(f"child {number} {turn}") for turn in range(20)) else 1
            finally:
                os._exit(status)
        children.append(child)
    assert all(create(f"parent {turn}") for turn in range(20))
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert create("parent after") is not None
    assert len(ledger.runs.list(COMPANY, limit=1000)) == 82
