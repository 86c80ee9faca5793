"""Celery's own command line finds the app, as in every Celery project: ``celery -A workers ...`` from the root."""

import http.client
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import psutil
import pytest
from support.repository import ROOT
from support.running_stack import StackAddress, clean_environ, wait_until
from support.valkey_servers import free_port

from workers.broker import broker_app
from workers.groups import GROUPS
from workers.health import Heartbeat

CELERY = Path(sys.executable).parent / "celery"

#: Seconds that a command may take on a crowded machine.
LIMIT = 300


def celery(stack: StackAddress, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(CELERY), *words],
        cwd=ROOT,
        env={**clean_environ(), "MEMTEND_HOME": str(stack.home)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(stack: StackAddress, tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, **more: str) -> "subprocess.Popen[bytes]":
        log: IO[bytes]
        with (tmp_path / "log").open("wb") as log:
            command = [str(CELERY), *words]
            environment = {**clean_environ(), "MEMTEND_HOME": str(stack.home), **more}
            started.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def end(process: "subprocess.Popen[bytes]") -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(LIMIT)


def test_the_report_and_the_workers_answers(stack: StackAddress) -> None:
    report = celery(stack, "-A", "workers", "report")
    assert (report.returncode, "memtend-redis" in report.stdout) == (0, True), report.stderr
    password = stack.settings.broker_url.split(":")[2].partition("@")[0]
    assert password not in report.stdout
    answers = celery(stack, "-A", "workers", "inspect", "ping")
    assert answers.returncode == 0, answers.stderr
    assert answers.stdout.count("OK") >= 2
    assert "store@" in answers.stdout


@pytest.mark.parametrize("group", ["store", "night"])
def test_a_worker_of_each_pool_takes_the_jobs_of_its_group(stack: StackAddress, start: Start, group: str) -> None:
    name = f"extra-{group}@here"
    worker = start("-A", "workers" if group == "store" else f"workers.celery:{group}", "worker", "-n", name)
    with closing(broker_app(stack.settings)) as app:

        def queues() -> set[str]:
            found: Any = app.control.inspect([name], timeout=2).active_queues() or {}
            return {queue["name"] for queue in found.get(name, ())}

        wait_until(lambda: bool(queues()), seconds=LIMIT, what="the worker to answer")
        assert queues() == set(map(str, GROUPS[group].queues))
        pool = app.control.inspect([name], timeout=10).stats()[name]["pool"]
        assert pool["max-concurrency"] == GROUPS[group].concurrency
    assert end(worker) == 0


def test_beat_writes_its_heartbeat_and_no_other_file(stack: StackAddress, start: Start, tmp_path: Path) -> None:
    settings, left = stack.settings, set(ROOT.iterdir())
    # In a folder of its own: the stack has a beat, too.
    addresses = {
        "MEMTEND_BROKER_URL": settings.broker_url,
        "MEMTEND_DATABASE_URL": settings.database_url,
        "MEMTEND_QDRANT_URL": settings.qdrant_url,
    }
    beat = start("-A", "workers", "beat", MEMTEND_HOME=str(tmp_path), **addresses)
    wait_until(Heartbeat.of(tmp_path, "beat").is_fresh, seconds=LIMIT, what="a heartbeat")
    assert end(beat) == 0
    assert set(ROOT.iterdir()) == left


def test_flower_answers_this_machine_alone(start: Start) -> None:
    port = free_port()
    flower = start("-A", "workers", "flower", f"--port={port}")

    def answers() -> bool:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            try:
                connection.request("GET", "/healthcheck")
                return connection.getresponse().status == 200
            except OSError:
                return False

    wait_until(answers, seconds=LIMIT, what="Flower")
    listening = [each.laddr.ip for each in psutil.Process(flower.pid).net_connections() if each.status == "LISTEN"]
    assert set(listening) == {"127.0.0.1"}
    end(flower)


def test_a_name_of_no_group_and_settings_that_are_missing_are_errors(stack: StackAddress, tmp_path: Path) -> None:
    unknown = celery(stack, "-A", "workers.celery:day", "report")
    assert unknown.returncode != 0
    missing = subprocess.run(
        [str(CELERY), "-A", "workers", "report"], cwd=ROOT, env=clean_environ() | {"MEMTEND_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert missing.returncode != 0
    assert "MEMTEND_BROKER_URL" in missing.stderr + missing.stdout
