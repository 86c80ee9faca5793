"""A worker whose broker is gone lives, and is not well; it is again once the broker is back. A frozen one is ended."""

import os
import signal
import time
from pathlib import Path

import pytest
from support.plain_processes import fleet
from support.running_stack import wait_until
from support.valkey_servers import valkey_server

from workers.health import FROZEN_SECONDS, STALE_SECONDS, Heartbeat

pytestmark = pytest.mark.acceptance


def test_the_heartbeat_stops_with_the_broker_and_goes_on_with_it(tmp_path: Path) -> None:
    with (
        valkey_server(tmp_path / "broker") as broker,
        # A group that opens no store before its first job.
        fleet(
            tmp_path / "home",
            broker_url=broker.url,
            database_url=f"sqlite:///{tmp_path / 'ledger.db'}",
            qdrant_url="http://127.0.0.1:9",
        ) as installation,
    ):
        part = "worker-llm"
        heartbeat = Heartbeat.of(installation.home, part)
        installation.memtend("migrate")
        installation.start_all(part)
        process = installation.processes[part]
        broker.kill()
        wait_until(lambda: "Trying again" in installation.logs()[f"{part}.log"], what="the worker to miss its broker")
        long_ago = time.time() - 2 * STALE_SECONDS
        os.utime(heartbeat.path, (long_ago, long_ago))
        tries = installation.logs()[f"{part}.log"].count("Trying again")
        wait_until(
            lambda: installation.logs()[f"{part}.log"].count("Trying again") >= tries + 2, what="two more attempts"
        )
        alive = Heartbeat.alive(installation.home, part)
        os.utime(alive.path, (long_ago, time.time() - FROZEN_SECONDS))
        # The outage is no reason to end it: it shows life at the last look.
        assert installation.health("--end-frozen", part) == 1
        assert process.poll() is None
        broker.start()
        wait_until(lambda: installation.health(part) == 0, what="the worker to take jobs again")
        assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        os.utime(alive.path, (long_ago, time.time() - FROZEN_SECONDS))
        assert installation.health("--end-frozen", part) == 1
        assert process.wait(timeout=60) == -signal.SIGKILL
