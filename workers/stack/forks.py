"""The supervisor's side of the launcher: start it, ask it for parts, signal parts and learn how they ended.

A part is held by a descriptor of its process (pidfd), so it can be watched and signalled without its launcher, and
never mistaken for another process. A launcher that dies takes no part with it; a new one is started for parts to come.
"""

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from memcore.programs import program_argv
from memcore.telemetry.events import Event
from workers.stack.launcher import EXIT_THREADS, LARGEST_REQUEST

#: How long the launcher may take until it can fork; it imports everything, on a machine that may be busy.
PRELOAD_LIMIT = timedelta(seconds=150)

#: How long it may take to answer a request; longer, and it is taken for dead.
ANSWER_LIMIT = timedelta(seconds=10)

#: Launchers in a row that end before they can fork; parts are then started without one.
_MOST_FAILURES = 3

#: Exit code of a part whose launcher died before it: nobody can tell.
EXIT_UNKNOWN = 255

#: What a part may create is for its owner alone.
UMASK = 0o077

log = logging.getLogger("memtend.stack")


@dataclass(eq=False)
class ForkedProcess:
    """A part that the launcher forked; as much of ``subprocess.Popen`` as the supervisor uses."""

    pid: int
    handle: int
    launcher: "Launcher"
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code if it has ended, else None."""
        if self.returncode is None and self._has_ended(0):
            code = self.launcher.code_of(self.pid, reap=False)
            self.returncode = EXIT_UNKNOWN if code is None else code
        return self.returncode

    def wait(self) -> int:
        """Wait for its end and forget the process; return its exit code."""
        self._has_ended(None)
        code = self.poll()
        if self.handle >= 0:
            self.launcher.code_of(self.pid, reap=True)
            with suppress(ChildProcessError):
                # Where this process is the machine's first, as in a container, it inherits a dead launcher's parts.
                os.waitpid(self.pid, 0)
            os.close(self.handle)
            self.handle = -1
        return EXIT_UNKNOWN if code is None else code

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.handle >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.handle, number)

    def _has_ended(self, milliseconds: int | None) -> bool:
        if self.handle < 0:
            return True
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(milliseconds))


class Launcher:
    """The process that forks parts; not usable (``is_usable``) where the system has no pidfd, or when it cannot fork.

    Args:
        env: the variables of every part.
        log_file: where it writes what goes wrong.
        embedder: whose table the parts share; None for one without.
    """

    def __init__(self, env: Mapping[str, str], log_file: Path, *, embedder: str | None = None) -> None:
        self._env = dict(env)
        self._embedder = () if embedder is None else (embedder,)
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._is_ready = False
        self._started_at = 0.0
        self._failures = 0
        self.is_usable = sys.platform == "linux" and hasattr(os, "pidfd_open")

    @property
    def pid(self) -> int | None:
        """The id of its process, None where none runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process, which can fork once it is ready. Where that fails, parts are started without it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            handle = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with theirs, os.fdopen(handle, "wb") as out:
                self._process = subprocess.Popen(
                    (*program_argv("workers.stack.launcher"), str(theirs.fileno()), *self._embedder),
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    umask=UMASK,
                    pass_fds=(theirs.fileno(),),
                )
        except OSError as error:
            ours.close()
            self._give_up(error.strerror or type(error).__name__)
            return
        self._line, self._is_ready, self._started_at = ours, False, time.monotonic()

    def is_ready(self) -> bool:
        """Return whether it can fork now; a dead one is started again, and one that cannot fork is given up."""
        if not self.is_usable:
            return False
        if self._line is None:
            self.start()
        elif not self._is_ready:
            self._greet()
            if not self._is_ready and time.monotonic() - self._started_at > PRELOAD_LIMIT.total_seconds():
                self._give_up("not ready in time")
        elif self._process is not None and self._process.poll() is not None:
            log.warning(Event.STACK_LAUNCHER_DIED, extra={"exit_code": self._process.returncode})
            self.stop()
            self.start()
        return self._is_ready

    def fork(self, argv: Sequence[str], env: Mapping[str, str], out: int) -> ForkedProcess:
        """Start a program in a session of its own, with these variables beside its own, writing to a descriptor.

        Raises OSError: the launcher does not answer; it is started again.
        """
        answer, handles = self._ask({"start": list(argv), "env": dict(env), "umask": UMASK}, out)
        if "pid" not in answer or not handles:
            self.stop()
            raise ChildProcessError(f"the launcher does not answer; its log is {self._log_file}")
        return ForkedProcess(answer["pid"], handles[0], self)

    def code_of(self, pid: int, *, reap: bool) -> int | None:
        """Return the exit code of a part that has ended, None where it cannot be told."""
        if not self._is_ready:
            return None
        code: int | None = self._ask({"end_of": pid, "reap": reap})[0].get("code")
        return code

    def stop(self) -> None:
        """End the process; its parts go on."""
        # Killed before its line is closed: at the end of the line it ends the part that it started last.
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._line is not None:
            self._line.close()
        self._line, self._process, self._is_ready = None, None, False

    def _greet(self) -> None:
        if self._line is None or self._process is None:
            return
        self._line.settimeout(0)
        try:
            is_ready = bool(self._line.recv(LARGEST_REQUEST))
        except BlockingIOError:
            return
        except ConnectionResetError:
            is_ready = False
        if is_ready:
            self._is_ready, self._failures = True, 0
            log.info(Event.STACK_LAUNCHER_READY, extra={"pid": self.pid})
            return
        code, self._failures = self._process.wait(), self._failures + 1
        if code == EXIT_THREADS or self._failures == _MOST_FAILURES:
            self._give_up(f"ended with exit code {code}")
        else:
            self.stop()

    def _give_up(self, error: str) -> None:
        self.stop()
        self.is_usable = False
        log.warning(Event.STACK_LAUNCHER_UNUSABLE, extra={"error": error})

    def _ask(self, request: Mapping[str, Any], handle: int | None = None) -> tuple[dict[str, Any], list[int]]:
        """Return the answer and the descriptor that came with it; nothing where it does not answer."""
        if self._line is None or not self._is_ready:
            return {}, []
        self._line.settimeout(ANSWER_LIMIT.total_seconds())
        try:
            socket.send_fds(self._line, [json.dumps(request).encode()], [] if handle is None else [handle])
            content, handles, _, _ = socket.recv_fds(self._line, LARGEST_REQUEST, 1, socket.MSG_CMSG_CLOEXEC)
            answer: dict[str, Any] = json.loads(content) if content else {}
        except OSError:
            answer, handles = {}, []
        if not answer:
            log.warning(Event.STACK_LAUNCHER_SILENT)
            self.stop()
        return answer, handles
