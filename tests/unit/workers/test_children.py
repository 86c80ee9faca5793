import os
import signal
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from billiard.context import ForkContext
from support.running_stack import wait_until

from memcore.telemetry.events import Event
from workers.children import Children
from workers.health import FROZEN_SECONDS


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@contextmanager
def child_of(children: Children, work: Callable[[int], None]) -> Generator[int]:
    """Fork a child, as a pool does, that shows life and then works; yield its pid once it says so through a pipe."""
    heard, said = os.pipe()

    def live() -> None:
        children.show_life()
        work(said)
        time.sleep(3600)

    process: Any = ForkContext().Process(target=live)
    process.index = 1
    process.start()
    try:
        assert os.read(heard, 1) == b"!"
        yield process.pid
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        os.close(heard)
        os.close(said)


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def speak(said: int) -> None:
    os.write(said, b"!")


def pass_time(children: Children, clock: Clock) -> None:
    for _ in range(5):
        clock.seconds += FROZEN_SECONDS / 4
        children.end_frozen()


def test_a_frozen_child_is_ended_and_what_it_held_is_free(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, path = Clock(), tmp_path / "ledger.db"
    children = Children(monotonic=clock)

    def hold(said: int) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        speak(said)

    with child_of(children, hold) as pid, closing(sqlite3.connect(path, timeout=0)) as other:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        children.end_frozen()
        # This process slept, and perhaps its child with it.
        clock.seconds += 10 * FROZEN_SECONDS
        children.end_frozen()
        clock.seconds += FROZEN_SECONDS / 3
        children.end_frozen()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        pass_time(children, clock)
        wait_until(lambda: has_ended(pid), what="the child to end")
        other.execute("BEGIN IMMEDIATE")
        frozen = [record for record in caplog.records if record.message == Event.WORKER_CHILD_FROZEN]
        assert [record.pid for record in frozen] == [pid]  # type: ignore[attr-defined]


def test_a_child_that_lives_is_left_alone() -> None:
    clock = Clock()
    children = Children(monotonic=clock, pause_seconds=0.001)
    with child_of(children, speak) as pid:
        for _ in range(6):
            before = bytes(children._signs)
            while bytes(children._signs) == before:
                time.sleep(0.001)
            clock.seconds += FROZEN_SECONDS / 2
            children.end_frozen()
        assert not has_ended(pid)


def test_a_process_that_is_no_child_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    children = Children(monotonic=clock, pause_seconds=3600)
    with child_of(children, speak) as pid:
        # As after its end another process has got the pid of a child.
        monkeypatch.setattr("workers.children.os", SimpleNamespace(getpid=lambda: 1))
        children.end_frozen()
        pass_time(children, clock)
        assert not caplog.records
        assert not has_ended(pid)
        monkeypatch.undo()
        assert not bytes(children._signs).strip(b"\0"), "its sign is forgotten"
