"""Real Celery workers over our transport: killed brokers, shutdowns, and producers that know only ``redis://``."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from celery import Celery
from redis import Redis
from support.valkey_servers import BrokerAddress, queue_length

from workers.transport import reliable_url

APP = Path(__file__).with_name("worker_app.py")

#: Of the workers' messages, unless a test says otherwise.
VISIBILITY_SECONDS = 60

type_of_counts = Counter[str]


def wait_for(holds: Callable[[], object], *, seconds: float = 60) -> None:
    until = monotonic() + seconds
    while not holds():
        assert monotonic() < until, "the condition never held"
        sleep(0.02)


class Worker:
    def __init__(self, process: subprocess.Popen[bytes], diary: Path, log: Path) -> None:
        self.process = process
        self.diary = diary
        self.log = log

    def lines(self) -> type_of_counts:
        return Counter(self.diary.read_text().splitlines() if self.diary.exists() else [])

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return " ready." in self.log.read_text()


@pytest.fixture
def start_worker(broker: BrokerAddress, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(*options: str, soft_shutdown_seconds: float = 0, visibility_seconds: int = VISIBILITY_SECONDS) -> Worker:
        diary, log = tmp_path / "diary", tmp_path / "worker.log"
        environment = {
            **os.environ,
            "SOFT_SHUTDOWN_SECONDS": str(soft_shutdown_seconds),
            "VISIBILITY_SECONDS": str(visibility_seconds),
        }
        command = [sys.executable, str(APP), reliable_url(broker.url), str(diary), *options]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        worker = Worker(process, diary, log)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        if worker.process.poll() is None:
            os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()


@contextmanager
def plain_producer(broker: BrokerAddress) -> Iterator[Callable[..., Any]]:
    """A producer with stock Celery and a stock URL: it knows nothing of our transport."""
    app = Celery("plain", broker=broker.url)
    with app.connection_for_write() as connection, connection.Producer() as producer:

        def send(number: int, seconds: float = 0.0) -> Any:
            return app.send_task("work", (number, seconds), producer=producer)

        yield send


PREFORK = ("--pool=prefork", "--concurrency=2")
THREADS = ("--pool=threads", "--concurrency=2")
SOLO = ("--pool=solo",)
QUIET = ("--without-mingle", "--without-gossip")


def test_a_worker_survives_its_broker_and_every_job_runs(
    start_worker: Callable[..., Worker], broker: BrokerAddress, store: Redis
) -> None:
    worker = start_worker(*PREFORK, *QUIET)
    with plain_producer(broker) as send:
        send(0, 1.5)
        send(1, 1.5)
        for number in range(2, 30):
            send(number)
        wait_for(lambda: worker.lines()["start 0"] and worker.lines()["start 1"])
        wait_for(lambda: store.hlen("unacked") == 8)
        store.close()

        broker.kill()
        wait_for(lambda: "Trying to re-establish" in worker.log.read_text())
        broker.start()

        # Both jobs run on through the outage and are acknowledged over a new connection.
        wait_for(lambda: worker.lines()["end 0"] and worker.lines()["end 1"])
        wait_for(lambda: store.hlen("unacked") == 6 or queue_length(store, "celery") < 22)
        for tag in store.hkeys("unacked"):
            store.zincrby("unacked_index", -60, tag)  # what the dead connection held and no job runs
        wait_for(lambda: all(worker.lines()[f"end {number}"] for number in range(30)))
        wait_for(lambda: not store.exists("unacked", "unacked_index", "celery"))

    assert worker.process.poll() is None
    log = worker.log.read_text()
    assert "Unrecoverable" not in log
    assert worker.lines()["start 0"] == worker.lines()["start 1"] == 1


@pytest.mark.parametrize("options", [PREFORK, THREADS, SOLO], ids=["prefork", "threads", "solo"])
def test_a_warm_shutdown_finishes_what_runs_and_gives_back_what_waits(
    start_worker: Callable[..., Worker], broker: BrokerAddress, store: Redis, options: tuple[str, ...]
) -> None:
    worker = start_worker(*options, *QUIET)
    with plain_producer(broker) as send:
        wait_for(worker.is_ready)
        for number in range(20):
            send(number)
        wait_for(lambda: len(worker.lines()) == 40)
        for number in range(20, 30):
            send(number, 0.7)
        wait_for(lambda: worker.lines()["start 20"])

        worker.process.send_signal(signal.SIGTERM)
        worker.process.wait(timeout=600)

    begun = {line.split()[1] for line in worker.lines() if line.startswith("start")}
    assert not store.exists("unacked", "unacked_index")
    assert len(begun) + int(store.llen("celery")) == 30
    assert all(worker.lines()[f"end {number}"] == 1 for number in begun)


@pytest.mark.parametrize("options", [PREFORK, THREADS], ids=["prefork", "threads"])
def test_a_soft_shutdown_finishes_what_it_can_and_gives_back_the_rest(
    start_worker: Callable[..., Worker], broker: BrokerAddress, store: Redis, options: tuple[str, ...]
) -> None:
    worker = start_worker(*options, *QUIET, soft_shutdown_seconds=1)
    with plain_producer(broker) as send:
        wait_for(worker.is_ready)
        for number in range(8):
            send(number, 0.6)
        wait_for(lambda: worker.lines()["start 0"] and worker.lines()["start 1"])

        worker.process.send_signal(signal.SIGQUIT)
        worker.process.wait(timeout=600)

    assert not store.exists("unacked", "unacked_index")
    ended = {line.split()[1] for line in worker.lines() if line.startswith("end")}
    assert len(ended) + int(store.llen("celery")) == 8
    assert {"0", "1"} <= ended


def test_remote_control_answers_a_client_that_knows_only_the_stock_scheme(
    start_worker: Callable[..., Worker], broker: BrokerAddress
) -> None:
    worker = start_worker(*THREADS)
    wait_for(worker.is_ready)
    app = Celery("plain", broker=broker.url)
    with app.connection_for_write() as connection:
        answers: list[dict[str, Any]] = app.control.ping(timeout=60, limit=1, connection=connection)

    assert [answer["ok"] for reply in answers for answer in reply.values()] == ["pong"]


@pytest.mark.parametrize("options", [PREFORK, THREADS, SOLO], ids=["prefork", "threads", "solo"])
def test_a_killed_workers_messages_go_to_its_successor_at_once(
    start_worker: Callable[..., Worker], broker: BrokerAddress, store: Redis, options: tuple[str, ...]
) -> None:
    # An hour: nothing but the hand-over brings them back while this test waits.
    worker = start_worker(*options, *QUIET, visibility_seconds=3_600)
    with plain_producer(broker) as send:
        for number in range(6):
            send(number, 600)
        wait_for(lambda: any(worker.lines().values()) and store.hlen("unacked") >= 2)
        begun = {line.split()[1] for line in worker.lines()}
        os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait()

        successor = start_worker(*options, *QUIET, visibility_seconds=3_600)
        wait_for(lambda: begun <= {line.split()[1] for line, count in successor.lines().items() if count > 1})

    assert not any(count > 2 for count in successor.lines().values())
    assert store.hlen("unacked") + queue_length(store, "celery") == 6
