"""Workers and beat as plain processes that read MEMTEND_* variables: an installation without the embedded stack."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from memcore.config.settings import Settings
from memcore.programs import program_argv
from support.running_stack import MEMTEND, clean_environ, wait_until
from workers.health import Heartbeat

#: Seconds that a part gets to stop: a worker alone may take 40 to give back what it holds.
STOP_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """One installation's variables, and the processes that were started with them."""

    home: Path
    variables: dict[str, str]
    extra: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        return {**clean_environ(), **self.extra, **self.variables, "MEMTEND_HOME": str(self.home)}

    @property
    def settings(self) -> Settings:
        return Settings.load({**self.variables, "MEMTEND_HOME": str(self.home)})

    def memtend(self, *words: str, code: int = 0) -> str:
        """Run a command to its end, as a person or a one-shot container does; return what it printed."""
        done = subprocess.run(
            [MEMTEND, *words], env=self.environ, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == code, (words, done.stdout, done.stderr, self.logs())
        return done.stdout

    def start(self, part: str, *words: str) -> None:
        """Start a part; its name is that of its heartbeat, unless it is the second of its kind."""
        with (self.home / f"{part}.log").open("ab") as log:
            self.processes[part] = subprocess.Popen(
                [MEMTEND, *words],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start_all(self, *parts: str) -> None:
        """Start ``beat`` and workers such as ``worker-store``, and return once each does its work."""
        for part in parts:
            self.start(part, *(["beat"] if part == "beat" else ["worker", "--group", part.removeprefix("worker-")]))
        for part in parts:
            wait_until(partial(self.is_well, part), what=f"{part} to be well")

    def health(self, *argv: str) -> int:
        """Ask as a container's probe does."""
        return subprocess.run(
            [*program_argv("workers.health"), *argv], env=self.environ, capture_output=True, check=False
        ).returncode

    def is_well(self, part: str) -> bool:
        assert self.processes[part].poll() is None, (part, self.logs())
        return Heartbeat.of(self.home, part).is_fresh()

    def logs(self) -> dict[str, str]:
        return {path.name: path.read_text(errors="replace")[-4000:] for path in self.home.glob("*.log")}

    def stop(self, part: str) -> int:
        """Tell a part to finish, and return its exit code."""
        process = self.processes.pop(part)
        process.terminate()
        code = process.wait(STOP_SECONDS)
        Heartbeat.of(self.home, part).path.unlink(missing_ok=True)
        return code

    def kill(self, part: str) -> None:
        """End a part and its children as the machine's end would."""
        process = self.processes.pop(part)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        Heartbeat.of(self.home, part).path.unlink(missing_ok=True)

    def kill_all(self) -> None:
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes.clear()


@contextmanager
def fleet(home: Path, **variables: str) -> Iterator[Fleet]:
    """Make an installation without any part, and without a policy file; parts that a test starts are ended with it."""
    home.mkdir(parents=True, exist_ok=True)
    made = Fleet(home=home, variables={f"MEMTEND_{name.upper()}": value for name, value in variables.items()})
    try:
        yield made
    finally:
        made.kill_all()
