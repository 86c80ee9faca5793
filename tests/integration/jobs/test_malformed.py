"""Messages that no worker can read: each becomes a dead letter after one try, and nobody else notices.

With ten thousand of them, in six minutes: ``MEMTEND_TEST_MALFORMED=10000 pytest -s -k random_malformed`` and this file.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection
from support.malformed_messages import SECRET, Mutator, valid
from support.rabbitmq import rabbitmq
from support.repository import ROOT
from support.running_stack import clean_environ, wait_until
from support.valkey_servers import BrokerAddress, valkey_server

from memcore.client.publisher import broker_queue
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.jobs import MAX_MESSAGE_BYTES, Queue
from memcore.ledger.dead_letters import HEAD_BYTES
from memcore.ledger.ledger import Ledger
from workers.groups import STORE

WORKER = ROOT / "tests" / "poison_worker.py"

#: How many malformed messages the long test sends: ``MEMTEND_TEST_MALFORMED=10000``.
NUMBER = int(os.environ.get("MEMTEND_TEST_MALFORMED", "150"))

#: Names the numbers from which they are drawn.
SEED = int(os.environ.get("MEMTEND_TEST_SEED", "1"))


#: What is sent in other tests: enough to meet every kind of break.
FEW = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerAddress]:
    with valkey_server(tmp_path / "broker", appendfsync="no") as address:
        yield address


@pytest.fixture
def home(tmp_path: Path, sqlite_ledger: LedgerUrls) -> Callable[[str], Path]:
    def make(broker_url: str) -> Path:
        results = f"db+{sqlite_ledger.ledger}" if broker_url.startswith("amqp") else broker_url
        made = Settings(
            broker_url=broker_url, database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path,
            result_url=results, qdrant_url="http://127.0.0.1:9", company="acme",
        )  # fmt: skip
        (tmp_path / "settings.json").write_text(made.model_dump_json())
        return tmp_path

    return make


@pytest.fixture
def ledger(sqlite_ledger: LedgerUrls) -> Iterator[Ledger]:
    opened = Ledger.open(sqlite_ledger)
    yield opened
    opened.close()


class Worker:
    """One worker that is started again whenever it ends, as a supervisor would."""

    def __init__(self, home: Path, pool: str, *, is_stock: bool = False) -> None:
        self._home = home
        self._pool = pool
        # As a store worker has it: nobody dies here.
        visibility = {"VISIBILITY": str(STORE.visibility.total_seconds())}
        self._environ = {**clean_environ(), **visibility, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"} | (
            {"STOCK": "1"} if is_stock else {}
        )
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    def keep_alive(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        self.starts += 1
        with (self._home / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), str(self._home), self._pool, "kill"],
                stdout=log, stderr=log, start_new_session=True, env=self._environ,
            )  # fmt: skip

    def ended(self) -> Counter[str]:
        diary = self._home / "diary"
        lines = diary.read_text().splitlines() if diary.exists() else []
        return Counter(line.removeprefix("end ") for line in lines if line.startswith("end "))

    def log(self) -> str:
        return (self._home / "worker.log").read_text()

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def settle(self, ledger: Ledger, *, malformed: int, healthy: Collection[str]) -> str:
        """Work until every message is done or a dead letter; return the figures."""
        began = time.monotonic()
        while True:
            self.keep_alive()
            ended, letters = self.ended(), ledger.dead_letters.count("acme")
            done = sum(ended.values()) - sum(ended[name] for name in healthy)
            is_over = all(ended[name] for name in healthy) and letters + done >= malformed
            seconds = time.monotonic() - began
            if is_over or seconds > 60 + malformed / 10:
                break
            time.sleep(0.1)
        figures = (
            f"{malformed} malformed: {letters} dead letters, {done} done all the same; healthy "
            f"{sum(ended[name] for name in healthy)} of {len(healthy)}; restarts {self.starts - 1}; {seconds:.0f} s"
        )
        print(figures)  # noqa: T201  # the figures of a long run
        assert is_over, f"{figures}\n{self.log()[-4_000:]}"
        assert (letters + done, self.starts) == (malformed, 1), figures
        assert {name: ended[name] for name in healthy} == dict.fromkeys(healthy, 1)
        return figures


@pytest.fixture
def start(home: Callable[[str], Path]) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def make(broker_url: str, pool: str, *, is_stock: bool = False) -> Worker:
        started.append(Worker(home(broker_url), pool, is_stock=is_stock))
        return started[-1]

    yield make
    for worker in started:
        worker.end()


@pytest.mark.timeout(300 + NUMBER / 5)
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_random_malformed_messages_become_dead_letters_and_every_healthy_job_is_done(
    start: Callable[..., Worker], ledger: Ledger, broker: BrokerAddress, pool: str
) -> None:
    worker = start(broker.url, pool)
    healthy = [f"h-{number}" for number in range(NUMBER // 10)]
    with broker.client() as redis:
        for number, message in enumerate(Mutator(SEED).messages(NUMBER)):
            redis.lpush(str(Queue.STORE_0), message)
            if number % 10 == 0:
                redis.lpush(str(Queue.STORE_0), valid(healthy[number // 10]))

        worker.settle(ledger, malformed=NUMBER, healthy=healthy)

        # The last acknowledgements travel with the worker's next turn.
        wait_until(
            lambda: not redis.exists("unreadable", "unacked.store", "unacked_index.store", str(Queue.STORE_0)),
            what="the last acknowledgement",
        )
    assert SECRET not in worker.log()


def test_a_message_above_the_limit_costs_neither_the_worker_nor_the_ledger_its_size(
    start: Callable[..., Worker], ledger: Ledger, broker: BrokerAddress, tmp_path: Path
) -> None:
    worker = start(broker.url, "threads")
    with broker.client() as redis:
        # What a first job and a first dead letter load is not the large message's.
        redis.lpush(str(Queue.STORE_0), "no message", valid("first"))
        worker.settle(ledger, malformed=1, healthy=["first"])
        assert worker.process is not None
        before = peak_of(worker.process.pid)
        # A worker grows by some 60 MiB whatever it is sent: what it is measured with must be larger.
        size = 12 * MAX_MESSAGE_BYTES
        large = valid("large").replace(SECRET, "x").encode()
        large = large.replace(b'"body": "', b'"body": "' + b"W" * (size - len(large)), 1)
        redis.lpush(str(Queue.STORE_0), large, valid("second"))
        worker.settle(ledger, malformed=2, healthy=["first", "second"])

    (letter,) = [each for each in ledger.dead_letters.list("acme") if "limit" in each.reason]
    kept = json.loads(letter.payload)
    assert (kept["bytes"], kept["sha256"]) == (size, sha256(large).hexdigest())
    assert kept["text"].encode() == large[:HEAD_BYTES]
    assert letter.reason == f"message: has {size} bytes; the limit is {MAX_MESSAGE_BYTES}"
    assert sum(file.stat().st_size for file in tmp_path.glob("ledger.db*")) < 4 * MAX_MESSAGE_BYTES // 8
    assert peak_of(worker.process.pid) - before < size


def peak_of(pid: int) -> int:
    """Return the most memory that a process held so far, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1_024 * int(status.partition("VmHWM:")[2].split()[0])


def send_all(url: str) -> list[str]:
    """Send FEW malformed messages through a channel of kombu's, and a healthy one after every tenth; return these."""
    healthy = [f"h-{number}" for number in range(FEW // 10)]
    for number, message in enumerate(Mutator(SEED).messages(FEW)):
        for each in (message, valid(healthy[number // 10]).encode())[: 2 if number % 10 == 0 else 1]:
            try:
                tree = json.loads(each)
                # Kombu's channels write a table of headers, whatever they read.
                publish(url, base64.b64decode(tree["body"]), {**tree["headers"]}, tree)
            except Exception:  # noqa: BLE001  # client libraries raise whatever they like
                # What this broker's protocol cannot carry goes as a body alone.
                publish(url, each or b"-", {}, {})
    return healthy


def publish(url: str, body: bytes, headers: dict[str, Any], tree: dict[str, Any]) -> None:
    types = {name.replace("-", "_"): tree.get(name) for name in ("content-type", "content-encoding")}
    # A connection of its own, and confirmed: RabbitMQ closes it over what it cannot read.
    with Connection(url, transport_options={"confirm_publish": True}) as connection:
        channel = connection.default_channel
        queue = broker_queue(str(Queue.STORE_0))(channel)
        queue.declare()
        message = channel.prepare_message(body, headers=headers, properties={}, **types)
        channel.basic_publish(message, exchange="", routing_key=queue.name)


def test_kombus_own_transport_for_redis_loses_nothing_that_it_hands_over(
    start: Callable[..., Worker], ledger: Ledger, broker: BrokerAddress
) -> None:
    worker = start(broker.url, "threads", is_stock=True)
    worker.settle(ledger, malformed=FEW, healthy=send_all(broker.url))
    assert SECRET not in worker.log()


@pytest.mark.service
def test_rabbitmq_loses_nothing(start: Callable[..., Worker], ledger: Ledger) -> None:
    with rabbitmq() as url:
        worker = start(url, "threads")
        worker.settle(ledger, malformed=FEW, healthy=send_all(url))
        worker.end()
        with Connection(url) as connection:
            left = connection.default_channel.queue_declare(str(Queue.STORE_0), passive=True).message_count
    assert left == 0
    assert SECRET not in worker.log()
