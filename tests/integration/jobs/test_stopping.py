"""A worker that is told to stop ends within its own limit, whatever its broker does, and loses nothing with it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.malformed_messages import valid
from support.repository import ROOT
from support.running_stack import clean_environ, wait_until
from support.valkey_servers import BrokerAddress, valkey_server

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.jobs import Queue
from workers.health import Heartbeat

WORKER = ROOT / "tests" / "poison_worker.py"

#: The limit here, in seconds; a worker that waits for its broker waits for minutes, or for ever.
STOP_SECONDS = 4.0

#: How long the job takes that runs meanwhile: less than its limit.
JOB_SECONDS = 0.8

#: How much later the process may be seen to have ended, on a busy machine.
SLACK_SECONDS = 20.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerAddress]:
    with valkey_server(tmp_path / "broker") as address:
        yield address
        if address.process is not None:
            address.process.send_signal(signal.SIGCONT)


@pytest.fixture
def home(tmp_path: Path, sqlite_ledger: LedgerUrls, broker: BrokerAddress) -> Path:
    settings = Settings(
        broker_url=broker.url, database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path,
        qdrant_url="http://127.0.0.1:9", company="acme",
    )  # fmt: skip
    (tmp_path / "settings.json").write_text(settings.model_dump_json())
    return tmp_path


@pytest.fixture
def start(home: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start_worker(pool: str) -> subprocess.Popen[bytes]:
        environ = {**clean_environ(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "STOP": str(STOP_SECONDS)}
        if pool == "prefork":
            environ["REMAP_SIGTERM"] = "SIGQUIT"  # as the stack starts it
        ready = Heartbeat.of(home, "worker-store").path
        ready.unlink(missing_ok=True)
        with (home / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(WORKER), str(home), pool, "kill"],
                stdout=log, stderr=log, env=environ, start_new_session=True,
            )  # fmt: skip
        started.append(process)
        wait_until(ready.exists, what="the worker")
        return process

    yield start_worker
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def diary(home: Path) -> list[str]:
    return (home / "diary").read_text().splitlines() if (home / "diary").exists() else []


@pytest.mark.slow(because="two workers, one after the other, and the time that the first may take")
@pytest.mark.parametrize(
    ("pool", "is_silent"),
    [("threads", True), ("prefork", True), ("prefork", False)],
    ids=["threads-silent", "prefork-silent", "prefork-gone"],
)
def test_a_worker_ends_in_time_without_its_broker_and_its_job_is_done_by_the_next(
    start: Callable[[str], subprocess.Popen[bytes]], broker: BrokerAddress, home: Path, pool: str, *, is_silent: bool
) -> None:
    worker = start(pool)
    with broker.client() as redis:
        redis.lpush(str(Queue.STORE_0), valid("long", seconds=JOB_SECONDS))
    wait_until(lambda: "start long" in diary(home), what="the job")
    family = psutil.Process(worker.pid).children(recursive=True)
    assert broker.process is not None
    if is_silent:
        broker.process.send_signal(signal.SIGSTOP)

    asked_at = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    if not is_silent:
        broker.kill()
    worker.wait(STOP_SECONDS + SLACK_SECONDS)

    took = time.monotonic() - asked_at
    assert took < STOP_SECONDS + SLACK_SECONDS, (home / "worker.log").read_text()
    wait_until(lambda: not any(child.is_running() for child in family), what="the end of the children")
    if is_silent:
        broker.process.send_signal(signal.SIGCONT)
    else:
        broker.start()
    start(pool)
    with broker.client() as redis:
        wait_until(lambda: not redis.exists(str(Queue.STORE_0), "unacked.store"), what="an empty broker")
    assert "end long" in diary(home)
