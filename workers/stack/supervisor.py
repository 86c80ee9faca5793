"""The supervisor: starts the parts in order, restarts those that die, stops them in reverse.

A part that dies is started again after a wait that doubles with each death in a row and is forgotten once the part has
been well for a while; one that cannot be started, because the disk is full, counts as dead. The state is for people:
where it cannot be written, that is logged once, and the parts are watched all the same.
Asked to stop (SIGINT, SIGTERM), it tells the parts, those started last first, so that workers finish what they hold
while broker and store still answer.
"""

import fcntl
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType

import psutil

from memcore.clock import utc_now
from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.telemetry.events import Event
from workers.stack.home import ServiceState, StackState, read_state, same_process, write_state
from workers.stack.services import ServiceSpec

#: A log larger than this, in bytes (16 MiB), is set aside before its part starts again; one old log is kept.
_LOG_BYTES = 16_777_216

#: What a shell answers for a command that it could not run.
_NOT_STARTED = 126


@dataclass
class ServiceProcess:
    """A part and the process that runs it now.

    Attributes:
        was_ready: whether the present process has been seen ready.
        failed: why the last start failed; empty when it did not.
        born: when the process was created, as the system tells it; with the pid it names the process for good.
    """

    part: ServiceSpec
    log: Path
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    was_ready: bool = False
    failed: str = ""
    born: float = 0.0
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
            self.process = subprocess.Popen(
                self.part.argv,
                env={**env, **self.part.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
        self.born = psutil.Process(self.process.pid).create_time()

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
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.process.wait()


#: Pause between two looks at the parts, in seconds.
POLL_INTERVAL_SECONDS = 0.1

#: The same while they start or end, when somebody waits.
_WAITING_SECONDS = 0.02

#: Pause between two writings of the state, in seconds.
STATE_SECONDS = 1.0

#: First wait before a dead part starts again.
FIRST_WAIT = timedelta(seconds=0.2)

#: Longest wait before a dead part starts again.
LONGEST_WAIT = timedelta(seconds=30)

#: The same of a part that was ready before it died: it can start, and jobs wait for it.
LONGEST_WAIT_WHEN_READY = timedelta(seconds=5)

#: A part that has been up this long has recovered: its next death is a first one again.
WELL_AFTER = timedelta(seconds=20)

#: Exit code by which a part says that its configuration is wrong and starting it again is useless.
EXIT_CONFIG = 2

log = logging.getLogger("memtend.stack")


class Supervisor:
    """Runs the parts of one data folder, started in the order in which they are given."""

    def __init__(self, home: Path, parts: Sequence[ServiceSpec], env: Mapping[str, str]) -> None:
        self._home = home
        self._env = dict(env)
        self._members = [ServiceProcess(part, home / "logs" / f"{part.name}.log") for part in parts]
        self._revive_at: dict[str, float] = {}
        self._outages: dict[str, int] = {}
        self._up_since: dict[str, float] = {}
        self._stopping = False
        self._started_at = utc_now()
        #: Most memory that all parts and their children held together, as sampled each second.
        self.peak_resident_bytes = 0
        self._state_due = 0.0
        self._state_lost = False

    def start(self) -> None:
        """Start every part and wait until it is ready: each after those before it, unless it may start beside them.

        Raises MemoryConnectionError, naming its log, when a part did not become ready; what was started is stopped.
        """
        for stage in self._stages():
            for member in stage:
                self._launch(member)
            self._await_ready(stage)

    def _stages(self) -> list[list[ServiceProcess]]:
        stages: list[list[ServiceProcess]] = []
        for member in self._members:
            if member.part.is_beside and stages:
                stages[-1].append(member)
            else:
                stages.append([member])
        return stages

    def _await_ready(self, starting: Sequence[ServiceProcess]) -> None:
        begun = time.monotonic()
        while not self._stopping and (late := [member for member in starting if not member.check_now()]):
            for member in late:
                code, limit = member.died(), member.part.start_limit.total_seconds()
                if code is not None or time.monotonic() - begun > limit:
                    why = f"ended with exit code {code}" if code is not None else "was not ready in time"
                    why = f"could not be started ({member.failed})" if member.failed else why
                    self.stop()
                    raise MemoryConnectionError(f"{member.part.name} {why}; its log is {member.log}")
            time.sleep(_WAITING_SECONDS)
        self._write_state()

    def watch(self) -> None:
        """Keep the parts alive until somebody asks to stop."""
        while not self._stopping:
            for member in self._members:
                self._check_parts(member)
            if time.monotonic() >= self._state_due:
                self._write_state()
            time.sleep(POLL_INTERVAL_SECONDS)

    def ask_to_stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Make ``watch`` return; safe to call from a signal handler."""
        self._stopping = True

    def stop(self) -> None:
        """Stop every part, those started last first, each with its own grace; kill what stays."""
        self._stopping = True
        for stage in reversed(self._stages()):
            asked_at = time.monotonic()
            for member in stage:
                member.ask_to_stop()
            for member in stage:
                self._await_end(member, asked_at)
        self._write_state()

    @staticmethod
    def _await_end(member: ServiceProcess, asked_at: float) -> None:
        while member.process is not None and member.died() is None:
            if time.monotonic() - asked_at > member.part.stop_limit.total_seconds():
                log.warning(Event.STACK_PART_KILLED, extra={"part": member.part.name})
                break
            time.sleep(_WAITING_SECONDS)
        member.clear_away()

    def _launch(self, member: ServiceProcess) -> None:
        ready_file = self._home / "run" / f"{member.part.name}.ready"
        self._up_since[member.part.name] = time.monotonic()
        try:
            ready_file.unlink(missing_ok=True)
            member.start(self._env)
        except OSError as error:
            member.process, member.failed = None, error.strerror or type(error).__name__
            log.warning(Event.STACK_PART_NOT_STARTED, extra={"part": member.part.name, "error": member.failed})
            return
        # At once: if we are killed now, the next supervisor must know what to end.
        self._write_state()
        log.info(Event.STACK_PART_STARTED, extra={"part": member.part.name, "pid": member.pid})

    def _check_parts(self, member: ServiceProcess) -> None:
        name, code = member.part.name, member.died()
        if code is None:
            member.check_now()
            if time.monotonic() - self._up_since[name] > WELL_AFTER.total_seconds():
                self._outages.pop(name, None)
            return
        if name not in self._revive_at:
            member.clear_away()
            outages = self._outages[name] = self._outages.get(name, 0) + 1
            longest = LONGEST_WAIT_WHEN_READY if member.was_ready else LONGEST_WAIT
            wait = LONGEST_WAIT if code == EXIT_CONFIG else min(FIRST_WAIT * 2 ** (outages - 1), longest)
            self._revive_at[name] = time.monotonic() + wait.total_seconds()
            log.warning(
                Event.STACK_PART_DIED, extra={"part": name, "exit_code": code, "wait_seconds": wait.total_seconds()}
            )
        elif time.monotonic() >= self._revive_at[name]:
            del self._revive_at[name]
            member.restarts += 1
            self._launch(member)

    def _write_state(self) -> None:
        resident = self._resident_bytes()
        self.peak_resident_bytes = max(self.peak_resident_bytes, sum(resident.values()))
        self._state_due = time.monotonic() + STATE_SECONDS
        state = StackState(
            supervisor_pid=os.getpid(),
            supervisor_born=psutil.Process().create_time(),
            started_at=self._started_at,
            seen_at=utc_now(),
            peak_resident_bytes=self.peak_resident_bytes,
            parts=tuple(
                ServiceState(
                    name=member.part.name,
                    pid=member.pid if member.died() is None else None,
                    born=member.born,
                    ready=member.is_well,
                    restarts=member.restarts,
                    resident_bytes=resident[member.part.name],
                )
                for member in self._members
            ),
        )
        try:
            write_state(self._home, state)
        except OSError as error:
            # Once: on a full disk it fails each second, and the log lies on that disk too.
            if not self._state_lost:
                log.warning(Event.STACK_STATE_UNWRITTEN, extra={"error": error.strerror or type(error).__name__})
            self._state_lost = True
        else:
            self._state_lost = False

    def _resident_bytes(self) -> dict[str, int]:
        """Return the resident memory of each part and its children; shared pages count for each."""
        # One look at all processes a second: a look for each part took 3 % of a core.
        by_session = {member.pid: 0 for member in self._members}
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error, ProcessLookupError):
                session = os.getsid(process.pid)
                if session in by_session:
                    by_session[session] += process.memory_info().rss
        return {member.part.name: by_session[member.pid] if member.pid else 0 for member in self._members}


def take_over(home: Path) -> int:
    """Make this process the one supervisor of a data folder; return the handle that keeps it so.

    Parts that a killed supervisor left behind are ended first, by their pid and creation time.

    Raises MemoryConfigError: another supervisor runs there.
    """
    handle = os.open(home / "run" / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise MemoryConfigError(f"a stack runs at {home} already: stop it first, or choose another --home") from None
    left = read_state(home)
    for part in left.parts if left else ():
        if part.pid is not None and same_process(part.pid, part.born):
            log.warning(Event.STACK_PART_LEFT_BEHIND, extra={"part": part.name, "pid": part.pid})
            os.killpg(part.pid, signal.SIGKILL)
            psutil.wait_procs([psutil.Process(part.pid)] if psutil.pid_exists(part.pid) else [], timeout=5)
    return handle
