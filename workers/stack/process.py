"""One running part: its process, its log, and how often it had to be started again."""

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from workers.stack.part import Part

#: A log larger than this, in bytes (16 MiB), is set aside before its part starts again; one old log is kept.
_LOG_BYTES = 16_777_216

#: What a shell answers for a command that it could not run.
_NOT_STARTED = 126


@dataclass
class PartProcess:
    """A part and the process that runs it now.

    Attributes:
        restarts: how often it was started again after it had died.
        was_ready: whether the present process has been seen ready.
        failed: why the last start failed; empty when it did not.
    """

    part: Part
    log: Path
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    was_ready: bool = False
    failed: str = ""
    _born: float = field(default=0.0)
    _is_cleared: bool = field(default=False)

    def start(self, env: Mapping[str, str]) -> None:
        """Start the process in a session of its own, so that a Ctrl-C meant for us does not reach it.

        Raises OSError, after which there is no process.
        """
        self.process = None
        self.was_ready = False
        self.failed = ""
        self._set_old_log_aside()
        self._is_cleared = False
        # Logs name agents, and a part's files hold memories: all that it creates is for the owner alone.
        handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "ab") as log:
            self.process = subprocess.Popen(
                self.part.argv,
                env={**env, **self.part.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
        self._born = psutil.Process(self.process.pid).create_time()

    @property
    def pid(self) -> int | None:
        """The process's id, None before the first start."""
        return self.process.pid if self.process else None

    @property
    def born(self) -> float:
        """When the process was created, as the system tells it; with the pid it names the process for good."""
        return self._born

    def died(self) -> int | None:
        """Return the exit code of a process that has ended, that of a shell for one that could not start, else None."""
        if self.failed:
            return _NOT_STARTED
        return self.process.poll() if self.process else None

    def look(self) -> bool:
        """Look whether the part is ready, and remember it."""
        self.was_ready = self.was_ready or self.part.is_ready()
        return self.was_ready

    @property
    def is_well(self) -> bool:
        """Whether it does its work now: it runs, it was ready, and its heartbeat goes on where it has one."""
        return self.died() is None and self.was_ready and (self.part.is_well is None or self.part.is_well())

    def ask_to_stop(self) -> None:
        """Send the part's stop signal; a process that is gone already is no error."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.part.stop_signal)

    def clear_away(self) -> None:
        """Kill whatever is left of the process's group: children that outlived their parent hold its resources."""
        # Once only: when the group is gone, its id may become another's.
        if self.process is not None and not self._is_cleared:
            self._is_cleared = True
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.process.wait()

    def resident_bytes(self) -> int:
        """Return the resident memory of the process and its children; shared pages count for each."""
        if self.process is None:
            return 0
        try:
            parent = psutil.Process(self.process.pid)
            family = [parent, *parent.children(recursive=True)]
        except psutil.Error:
            return 0
        total = 0
        for member in family:
            try:
                total += member.memory_info().rss
            except psutil.Error:
                continue
        return total

    def _set_old_log_aside(self) -> None:
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".old.log"))
