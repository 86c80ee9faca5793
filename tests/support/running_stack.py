"""A running embedded stack: `memtend up` as a person starts it, in a process of its own, on a folder of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep

import psutil
from sqlalchemy import ColumnElement, create_engine, update

from memcore.config.settings import Settings
from memcore.ledger.tables import OPEN_WORK, work_items
from workers.stack.home import StackState, read_state, same_process

#: The script that `make setup` leaves.
MEMTEND = Path(sys.executable).parent / "memtend"

#: Seconds until a stack is up: five times what it takes on two busy cores.
UP_SECONDS = 600.0

#: Seconds until a stack is down: a worker alone may take 40 to give back what it holds.
DOWN_SECONDS = 600.0


#: Of each log that :func:`last_words` shows.
_LINES, _WIDTH = 8, 240

#: The stacks of the tests of this process.
_RUNNING: list["StackAddress"] = []


@dataclass(frozen=True, kw_only=True)
class StackAddress:
    """A running stack."""

    home: Path
    settings: Settings
    process: subprocess.Popen[bytes]

    @property
    def state(self) -> StackState:
        """What the supervisor last wrote."""
        state = read_state(self.home)
        assert state is not None
        return state

    def pid(self, part: str) -> int | None:
        """The pid of a part that runs, as the supervisor last saw it."""
        return next(each.pid for each in self.state.parts if each.name == part)

    def restarts(self, part: str) -> int:
        return next(each.restarts for each in self.state.parts if each.name == part)

    def is_ready(self, part: str) -> bool:
        return next(each.ready for each in self.state.parts if each.name == part)

    def family(self) -> list[psutil.Process]:
        """The supervisor and every process below it."""
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def log(self, part: str) -> str:
        return (self.home / "logs" / f"{part}.log").read_text(errors="replace")

    def lapse(self, work: ColumnElement[bool]) -> None:
        """Let a dead worker's open work have been dispatched and leased so long ago that the sweep finds it lost."""
        long_ago = datetime.now(UTC) - timedelta(hours=2)
        engine = create_engine(self.settings.ledger_urls.ledger)
        with engine.begin() as connection:
            connection.execute(
                update(work_items).where(work, OPEN_WORK).values(lease_until=long_ago, dispatch_after=long_ago)
            )
        engine.dispose()

    def interrupt(self) -> int:
        """Press Ctrl-C, wait for the end, return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(DOWN_SECONDS)


def clean_environ() -> dict[str, str]:
    """The environment without memtend's own variables: a test says itself which stack it means."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MEMTEND_")}


def wait_until(condition: Callable[[], bool], *, seconds: float = 600.0, what: object = "") -> None:
    """Look until it is true, less often the longer it takes; fail after a time that is far more than it takes.

    ``what`` is what was waited for, or returns what is there instead.
    """
    began = monotonic()
    while not condition():
        waited = monotonic() - began
        assert waited < seconds, f"waited {seconds:g} seconds in vain: {what() if callable(what) else what}"
        sleep(min(0.02 + waited / 20, 0.5))


def start_stack(
    home: Path, command: Path = MEMTEND, cwd: Path | None = None, words: Sequence[str] = (), /, **environ: str
) -> StackAddress:
    """Start `memtend up` with these words and return once it says that it is up; the caller ends it."""
    home.parent.mkdir(parents=True, exist_ok=True)
    output = home.parent / f"{home.name}.up.log"
    output.unlink(missing_ok=True)
    with output.open("wb") as log:
        process = subprocess.Popen(
            [command, "up", "--home", str(home), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**clean_environ(), **environ},
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: b"memtend is up" in output.read_bytes() or process.poll() is not None,
            seconds=UP_SECONDS,
            what="memtend up",
        )
        assert process.poll() is None, output.read_text()
        return StackAddress(home=home, settings=Settings.load({}, home), process=process)
    except BaseException:
        end_stack(home, process)
        raise


def end_stack(home: Path, process: subprocess.Popen[bytes]) -> None:
    """End a stack politely, then by force: supervisor first, then whatever it names as its parts."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(DOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    left = read_state(home)
    for part in left.parts if left else ():
        if part.pid is not None and same_process(part.pid, part.born):
            os.killpg(part.pid, signal.SIGKILL)


@contextmanager
def running_stack(
    home: Path, command: Path = MEMTEND, cwd: Path | None = None, words: Sequence[str] = (), /, **environ: str
) -> Generator[StackAddress]:
    """Run a stack for as long as the context is open; the same home finds the same data again."""
    stack = start_stack(home, command, cwd, words, **environ)
    _RUNNING.append(stack)
    try:
        yield stack
    finally:
        _RUNNING.remove(stack)
        end_stack(home, stack.process)


def last_words() -> str:
    """What the parts of the stacks that run last logged: it tells why a test failed on a machine that nobody sees."""
    logs = [log for stack in _RUNNING for log in sorted((stack.home / "logs").glob("*.log"))]
    ends = {log.name: log.read_text(errors="replace").splitlines()[-_LINES:] for log in logs}
    return "\n".join(f"{name}: {line[:_WIDTH]}" for name, lines in ends.items() for line in lines)
