"""Several processes on one ledger: claims are exclusive, transactions are whole, a fork is harmless."""

import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from support.forked import Child, dies
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry
from support.present import present

from examples.demo.balance import tally_of
from memcore.clock import utc_now
from memcore.config.urls import LedgerUrls
from memcore.ledger.database import Database
from memcore.ledger.journal import Journal
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, Run
from memcore.ledger.work_items import WorkState
from memcore.models.memory import ConsolidationInterval

CLAIMERS = 8

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def _race(urls: LedgerUrls, what: str) -> list[str]:
    """Let processes claim due agents, or one run, or create an undo, until nothing is left; return what they got."""
    ready, to_ready = os.pipe()
    wait, go = os.pipe()

    def child() -> bytes:
        os.close(go)
        ledger = Ledger.open(urls)
        os.write(to_ready, b".")
        # Everyone starts at the same moment: when the starter closes its end.
        os.read(wait, 1)
        return "\n".join(_claimed(ledger, what)).encode()

    claimers = [Child(child) for _ in range(CLAIMERS)]
    for _ in claimers:
        assert os.read(ready, 1) == b"."
    os.close(go)
    try:
        return [name for claimer in claimers for name in claimer.said().split()]
    finally:
        for end in (ready, to_ready, wait):
            os.close(end)


def _claimed(ledger: Ledger, what: str) -> Iterator[str]:
    if what == "due":
        while runs := ledger.agents.claim_due([COMPANY], interval=ConsolidationInterval.DAILY, limit=7):
            yield from (run.key for run in runs)
            # Let the others have the write lock: whoever keeps asking keeps it.
            time.sleep(0)
    elif what == "undo":
        undo = NewRun(company=COMPANY, agent_id="ada", kind="undo", undo_of="earlier", planned_at=utc_now())
        if ledger.runs.create(undo):
            yield undo.run_id
    elif claimed := ledger.runs.claim(COMPANY, what, lease=timedelta(minutes=5)):
        yield claimed.token or ""


def test_eight_schedulers_take_each_due_agent_once(ledger: Ledger, urls: LedgerUrls, clock: StoppedClock) -> None:
    agents = [f"agent-{number}" for number in range(60)]
    ledger.agents.register(COMPANY, agents, interval=ConsolidationInterval.DAILY)
    for agent_id in agents:
        ledger.agents.set_due(COMPANY, agent_id, clock())
    got = _race(urls, "due")
    assert len(got) == len(set(got)) == len(agents)
    runs = ledger.runs.list(COMPANY, limit=1000)
    assert {run.run_id for run in runs} == set(got)
    assert {run.agent_id for run in runs} == set(agents)


def test_of_eight_workers_one_gets_the_run(ledger: Ledger, urls: LedgerUrls, clock: StoppedClock) -> None:
    run = present(ledger.runs.create(NewRun(company=COMPANY, agent_id="ada", planned_at=clock())))
    tokens = _race(urls, run.run_id)
    claimed = present(ledger.runs.get(COMPANY, run.run_id))
    assert tokens == [claimed.token]
    assert claimed.attempt == 1


def test_of_eight_undos_one_takes_the_place_of_the_run_that_waits(
    ledger: Ledger, urls: LedgerUrls, clock: StoppedClock
) -> None:
    maintenance_run = present(ledger.runs.create(NewRun(company=COMPANY, agent_id="ada", planned_at=clock())))
    claimed = present(ledger.runs.claim(maintenance_run.company, maintenance_run.run_id, lease=timedelta(minutes=1)))
    assert claimed.token is not None
    ledger.runs.wait(COMPANY, maintenance_run.run_id, claimed.token, until=clock() + timedelta(days=1), reason="paused")
    got = _race(urls, "undo")
    active = present(ledger.runs.active(COMPANY, "ada"))
    assert got == [active.run_id]
    states = {run.run_id: run.state for run in ledger.runs.list(COMPANY)}
    assert states == {maintenance_run.run_id: WorkState.SKIPPED, active.run_id: WorkState.AVAILABLE}


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
    while dies(urls.journal, _prepare, before=deaths):
        deaths += 1
        assert ledger.journal.open_entries("run") == ()
        assert ledger.journal.next_seq("run") == 0
        assert ledger.journal.tombstoned(sent) == {"back"}
    # Entry, records, tombstones set, tombstones cleared, commit; the dialect may add its BEGIN.
    assert deaths >= 5
    (journal_entry,) = ledger.journal.open_entries("run")
    assert journal_entry.incoming_ids == {"back"}
    assert journal_entry.outgoing_ids == {"gone", "too"}
    assert ledger.journal.tombstoned(sent) == {"gone", "too"}


def _prepare(database: Database) -> None:
    Journal(database, clock=StoppedClock()).prepare(
        make_journal_entry("killed", incoming=("back",), outgoing=("gone", "too"), incoming_kind="restored")
    )


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
