"""Messages that no worker can read: each becomes a dead letter after one try, and nobody else notices."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import BrokerAddress, valkey_server
from malformed import SECRET, Mutator, valid
from repository import ROOT
from stacks import clean_environ

from memcore.config.settings import Settings
from memcore.jobs.queues import Queue
from memcore.ledger.ledger import Ledger
from memcore.ledger.urls import LedgerUrls

WORKER = ROOT / "tests" / "poison_worker.py"

#: How many malformed messages the long test sends: ``MEMTEND_TEST_MALFORMED=10000``.
NUMBER = int(os.environ.get("MEMTEND_TEST_MALFORMED", "400"))

#: Names the numbers from which they are drawn.
SEED = int(os.environ.get("MEMTEND_TEST_SEED", "1"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerAddress]:
    with valkey_server(tmp_path / "broker", appendfsync="no") as address:
        yield address


@pytest.fixture
def settings(tmp_path: Path, sqlite_ledger: LedgerUrls, broker: BrokerAddress) -> Settings:
    made = Settings(
        broker_url=broker.url, database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path,
        qdrant_url="http://127.0.0.1:9", company="acme",
    )  # fmt: skip
    (tmp_path / "settings.json").write_text(made.model_dump_json())
    return made


@pytest.fixture
def ledger(settings: Settings) -> Iterator[Ledger]:
    opened = Ledger.open(settings.ledger_urls)
    yield opened
    opened.close()


class Worker:
    """One worker that is started again whenever it ends, as a supervisor would."""

    def __init__(self, folder: Path, pool: str) -> None:
        self.folder = folder
        self.pool = pool
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    def keep_alive(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        self.starts += 1
        with (self.folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), str(self.folder), self.pool, "kill"],
                stdout=log, stderr=log, start_new_session=True,
                env={**clean_environ(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            )  # fmt: skip

    def ended(self) -> Counter[str]:
        diary = self.folder / "diary"
        lines = diary.read_text().splitlines() if diary.exists() else []
        return Counter(line.removeprefix("end ") for line in lines if line.startswith("end "))

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(params=["threads", "prefork"])
def worker(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Worker]:
    made = Worker(settings.home, request.param)
    yield made
    made.end()


@pytest.mark.timeout(300 + NUMBER / 5)
def test_random_malformed_messages_become_dead_letters_and_every_healthy_job_is_done(
    worker: Worker, ledger: Ledger, broker: BrokerAddress, record_property: object
) -> None:
    began = time.monotonic()
    healthy = [f"h-{number}" for number in range(NUMBER // 10)]
    with broker.client() as redis:
        for number, message in enumerate(Mutator(SEED).messages(NUMBER)):
            redis.lpush(str(Queue.STORE_0), message)
            if number % 10 == 0:
                redis.lpush(str(Queue.STORE_0), valid(f"h-{number // 10}"))

        def is_over() -> bool:
            worker.keep_alive()
            left = redis.llen(str(Queue.STORE_0)) + redis.llen("unreadable") + redis.hlen("unacked.store")
            return int(left) == 0 and all(worker.ended()[name] for name in healthy)

        until = began + 60 + NUMBER / 10
        while not is_over() and time.monotonic() < until:
            time.sleep(0.05)
    ended, letters = worker.ended(), ledger.dead_letters.count("acme")
    done = sum(count for name, count in ended.items() if name not in set(healthy))
    figures = (
        f"{worker.pool}: {NUMBER} malformed: {letters} dead letters, {done} done all the same; healthy "
        f"{sum(ended[name] for name in healthy)} of {len(healthy)}; restarts {worker.starts - 1}; "
        f"{time.monotonic() - began:.0f} s"
    )
    print(figures)
    assert worker.starts == 1, worker.log()[-4_000:]
    assert letters + done == NUMBER, figures
    assert SECRET not in worker.log()
