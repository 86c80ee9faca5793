"""A busy worker whose connections to RabbitMQ are closed, or die without a word, goes on and loses nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kombu.connection import Connection
from support.cutting_proxy import CuttingProxy, cutting_proxy
from support.malformed_messages import SECRET
from support.rabbitmq import rabbitmq
from support.repository import ROOT
from support.running_stack import clean_environ, wait_until

from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import JobResults, broker_queue
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.jobs import Queue, StorePayload

pytestmark = pytest.mark.service

#: RabbitMQ's answer to basic.qos: its class and method. A worker asks for it whenever it connects.
QOS_OK = b"\x00\x3c\x00\x0b"

#: Jobs, and how long each takes, in seconds: enough that most threads are busy whenever a connection is closed.
JOBS, JOB_SECONDS = 300, 0.3

#: How long the worker waits for a broker that says nothing, in seconds.
SILENCE_SECONDS = 1


@pytest.fixture
def proxy() -> Iterator[CuttingProxy]:
    with rabbitmq() as url, cutting_proxy(urlsplit(url).port or 5672) as made:
        yield made


@pytest.fixture
def work(tmp_path: Path, sqlite_ledger: LedgerUrls, proxy: CuttingProxy) -> Iterator[Callable[[], set[str]]]:
    """Start a worker behind the proxy, send it jobs past the proxy; return what looks which it has done."""
    direct = os.environ["MEMTEND_TEST_RABBITMQ_URL"]
    address = urlsplit(direct)
    settings = Settings(
        broker_url=address._replace(netloc=f"{address.username}:{address.password}@127.0.0.1:{proxy.port}").geturl(),
        database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path, company="acme",
        result_url=f"db+{sqlite_ledger.ledger}", qdrant_url="http://127.0.0.1:9",
    )  # fmt: skip
    (tmp_path / "settings.json").write_text(settings.model_dump_json())
    with Connection(direct) as connection:
        # By hand: a client remembers for the whole process what it has declared once, and the last test deleted it.
        broker_queue(str(Queue.STORE_0))(connection.default_channel).declare()
    sender = JobResults(direct, None)
    payload = f'{{"name": "%s", "poison": false, "seconds": {JOB_SECONDS}, "text": "{SECRET}"}}'
    jobs = [
        OutgoingJob(job_id=f"j-{number}", queue=str(Queue.STORE_0), payload=payload % f"j-{number}", summary="job")
        for number in range(JOBS)
    ]
    sender.publish(StorePayload.task, jobs, track=False)
    sender.close()
    with (tmp_path / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "poison_worker.py"), str(tmp_path), "threads", "kill"],
            stdout=log, stderr=log, start_new_session=True,
            env={**clean_environ(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "THREADS": "32",
                 "AMQP": str(SILENCE_SECONDS)},
        )  # fmt: skip

    def ended() -> set[str]:
        assert process.poll() is None
        diary = tmp_path / "diary"
        lines = diary.read_text().splitlines() if diary.exists() else []
        return {line.removeprefix("end ") for line in lines if line.startswith("end ")}

    yield ended
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow(because="300 jobs, and as many connections as cuts")
def test_a_busy_worker_whose_connections_are_closed_again_and_again_does_every_job(
    proxy: CuttingProxy, work: Callable[[], set[str]]
) -> None:
    for cut in range(6):
        wait_until(lambda cut=cut: len(work()) >= 20 * cut, what="jobs between two cuts")  # type: ignore[misc]  # its type is bool
        # At the worst moments, too: half of them while the worker waits for an answer.
        if cut % 2:
            proxy.has_cut.clear()
            proxy.cut_at(QOS_OK)
            proxy.cut_now()
            assert proxy.has_cut.wait(60)
        else:
            proxy.cut_now()
    wait_until(lambda: len(work()) == JOBS, what="every job")


@pytest.mark.slow(because="300 jobs, and a broker that is waited for")
def test_a_connection_that_dies_without_a_word_is_given_up_and_the_worker_connects_anew(
    proxy: CuttingProxy, work: Callable[[], set[str]]
) -> None:
    wait_until(lambda: bool(work()), what="the worker to be at work")
    proxy.silence_at(QOS_OK)
    proxy.cut_now()
    assert proxy.has_cut.wait(60)
    wait_until(lambda: len(work()) == JOBS, what="every job")
