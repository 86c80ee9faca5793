"""One part of the stack and the process that runs it now: start it, ask how it is, stop it, clear up behind it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from workers.stack.forks import UMASK, ForkedProcess, Launcher
from workers.stack.services import ServiceSpec

#: A log larger than this, in bytes (16 MiB), is set aside before its part starts again; one old log is kept.
_LOG_BYTES = 16_777_216

#: What a shell answers for a command that it could not run.
_NOT_STARTED = 126


@dataclass
class ServiceProcess:
    """A part and the process that runs it now.

    Attributes:
        launcher: forks the part, if that is a program of memtend; None starts it as a process like any other.
        was_ready: whether the present process has been seen ready.
        failed: why the last start failed; empty when it did not.
        born: when the process was created, as the system tells it; with the pid it names the process for good.
    """

    part: ServiceSpec
    log: Path
    launcher: Launcher | None = None
    process: subprocess.Popen[bytes] | ForkedProcess | None = None
    restarts: int = 0
    was_ready: bool = False
    failed: str = ""
    born: float = 0.0
    _is_called: bool = False
    _handle: int = -1
    _is_cleared: bool = False

    def start(self, env: Mapping[str, str]) -> None:
        """Start the process in a session of its own, which our Ctrl-C does not reach; OSError leaves none."""
        self.process = None
        self.was_ready = False
        self.failed = ""
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".old.log"))
        self._is_cleared = False
        # Logs name agents, and a part's files hold memories: all that it creates is for the owner alone.
        handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "ab") as log:
            if self.part.is_forked and self.launcher is not None and self.launcher.is_usable:
                self.process = self.launcher.fork(self.part.argv, self.part.env, log.fileno())
            else:
                self.process = subprocess.Popen(
                    self.part.argv,
                    env={**env, **self.part.env},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    umask=UMASK,
                )
                if sys.platform == "linux":
                    self._handle = os.pidfd_open(self.process.pid)
        # Its pid is its own until somebody asks how it ended.
        self.born = psutil.Process(self.process.pid).create_time()

    @property
    def is_asleep(self) -> bool:
        """Whether it waits until somebody needs it, as it was seen last; once it is awake it stays so."""
        return self.part.is_needed is not None and not self._is_called

    def check_needed(self) -> bool:
        """Look whether it is needed, and remember it; True for a part that never sleeps."""
        self._is_called = self._is_called or self.part.is_needed is None or self.part.is_needed()
        return self._is_called

    @property
    def can_start(self) -> bool:
        """Whether it can be started without a wait for the launcher."""
        if not self.part.is_forked or self.launcher is None:
            return True
        return self.launcher.is_ready() or not self.launcher.is_usable

    @property
    def handle(self) -> int:
        """A descriptor that is readable once the process has ended; -1 where there is none."""
        return self.process.handle if isinstance(self.process, ForkedProcess) else self._handle

    @property
    def pid(self) -> int | None:
        """The process's id, None before the first start."""
        return self.process.pid if self.process else None

    def died(self) -> int | None:
        """Return the exit code of a process that has ended, that of a shell for one that could not start, else None."""
        if self.failed:
            return _NOT_STARTED
        return self.process.poll() if self.process else None

    def check_now(self) -> bool:
        """Look whether the part is ready, and remember it."""
        self.was_ready = self.was_ready or self.part.is_ready()
        return self.was_ready

    @property
    def is_well(self) -> bool:
        """Whether it does its work now: it runs, it was ready, and its heartbeat goes on where it has one."""
        return self.died() is None and self.was_ready and (self.part.is_well is None or self.part.is_well())

    def ask_to_stop(self) -> None:
        """Ask the process to finish and exit; one that is gone already is no error."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def clear_away(self) -> None:
        """Kill whatever is left of the process's group: children that outlived their parent hold its resources."""
        # Once only: when the group is gone, its id may become another's.
        if self.process is not None and not self._is_cleared:
            self._is_cleared = True
            # A fork that has no session yet is in no group of its own.
            self.process.kill()
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1


def await_any_end(members: Iterable[ServiceProcess], seconds: float, *, woken: int) -> None:
    """Wait until a process ends, or the descriptor ``woken`` has something to read, or so long."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    for member in members:
        if member.handle >= 0:
            poll.register(member.handle, select.POLLIN)
    poll.poll(seconds * 1_000)


def memory_by_session(leaders: Collection[int]) -> dict[int, int]:
    """Return the memory of all processes of each session, in bytes, by the pid of the session's leader.

    A page that several processes share is divided among them (PSS) where the system tells that, as Linux does.
    """
    sessions = dict.fromkeys(leaders, 0)
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if (session := os.getsid(pid)) in sessions:
                sessions[session] += _memory_of(pid)
    return sessions


def _memory_of(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return int(psutil.Process(pid).memory_info().rss)
