"""A job that ends every process that runs it: it becomes a dead letter, other jobs go on, and its replay works."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from poison_worker import CAUSE
from support.command_line import CommandLine
from support.repository import ROOT
from support.running_stack import clean_environ, wait_until
from support.valkey_servers import BrokerAddress, valkey_server

from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import JobResults
from memcore.client.results import JobState
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.jobs import Queue, StorePayload
from memcore.ledger.ledger import Ledger
from tasks.job import DEATHS

WORKER = ROOT / "tests" / "poison_worker.py"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerAddress]:
    with valkey_server(tmp_path / "broker") as address:
        yield address


@pytest.fixture
def settings(tmp_path: Path, sqlite_ledger: LedgerUrls, broker: BrokerAddress) -> Settings:
    made = Settings(
        broker_url=broker.url, database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path,
        qdrant_url="http://127.0.0.1:9", company="acme",
    )  # fmt: skip
    made.save_stack()
    (tmp_path / "settings.json").write_text(made.model_dump_json())
    return made


@pytest.fixture
def ledger(settings: Settings) -> Iterator[Ledger]:
    opened = Ledger.open(settings.ledger_urls)
    yield opened
    opened.close()


class JobContext:
    """One worker that is started again whenever it dies, as a supervisor would."""

    def __init__(self, folder: Path, pool: str, deed: str) -> None:
        self.folder = folder
        self.pool = pool
        self.deed = deed
        self.deaths = 0
        self.process: subprocess.Popen[bytes] | None = None

    def keep_alive(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                return
            assert self.process.returncode == -signal.SIGKILL, (self.folder / "worker.log").read_text()
            self.deaths += 1
        with (self.folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), str(self.folder), self.pool, self.deed],
                stdout=log, stderr=log, start_new_session=True,
                env={**clean_environ(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            )  # fmt: skip

    def lines(self) -> Counter[str]:
        diary = self.folder / "diary"
        return Counter(diary.read_text().splitlines() if diary.exists() else [])

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(params=[("threads", "kill"), ("prefork", "kill"), ("prefork", "hang")], ids=" ".join)
def job_context(request: pytest.FixtureRequest, settings: Settings) -> Iterator[JobContext]:
    pool, deed = request.param
    made = JobContext(settings.home, pool, deed)
    yield made
    made.end()


@pytest.fixture
def sender(settings: Settings) -> Iterator[JobResults]:
    opened = JobResults(settings.broker_url, settings.result_url)
    yield opened
    opened.close()


def send(sender: JobResults, name: str, *, poison: bool = False) -> None:
    queue, payload = Queue.STORE_BULK if poison else Queue.STORE_0, json.dumps({"name": name, "poison": poison})
    job = OutgoingJob(job_id=name, queue=str(queue), payload=payload, summary="1 memories")
    sender.publish(StorePayload.task, [job], track=True)


@pytest.mark.slow(because="the job kills its worker again and again until it is given up")
def test_a_poisonous_job_is_given_up_beside_others_and_replayed_when_its_cause_is_gone(
    job_context: JobContext, sender: JobResults, ledger: Ledger, broker: BrokerAddress
) -> None:
    (job_context.folder / CAUSE).touch()
    send(sender, "poison", poison=True)
    others = [f"job-{number}" for number in range(20)]
    for name in others:
        send(sender, name)

    def is_given_up() -> bool:
        job_context.keep_alive()
        return ledger.dead_letters.get("poison") is not None

    wait_until(is_given_up, what="the dead letter")
    wait_until(lambda: all(job_context.lines()[f"end {name}"] for name in others), what="the other jobs")
    send(sender, "after")
    wait_until(lambda: job_context.lines()["end after"] == 1, what="a job after the poison")

    letter = ledger.dead_letters.get("poison")
    assert letter is not None
    assert (letter.reason, letter.queue) == (f"{DEATHS} workers died while they ran it", str(Queue.STORE_BULK))
    assert job_context.lines()["start poison"] == DEATHS
    assert job_context.deaths == (DEATHS if job_context.pool == "threads" else 0)
    wait_until(lambda: sender.status("poison").state is JobState.DEAD, what="the outcome")
    assert ledger.dead_letters.ids("acme") == ("poison",)

    (job_context.folder / CAUSE).unlink()
    CommandLine(home=job_context.folder).ok("dead", "replay", "poison")
    wait_until(lambda: sender.status("poison").state is JobState.DONE, what="the outcome of the replay")
    assert job_context.lines()["end poison"] == 1
    assert ledger.attempts.count("poison") == 0
    assert ledger.dead_letters.count("acme") == 0
    with broker.client() as redis:
        wait_until(lambda: redis.hlen("unacked.store") == 0, what="every message to be acknowledged")
