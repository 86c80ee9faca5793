"""The supervisor: starts the parts in order, restarts those that die, stops them in reverse.

A part that dies is started again after a wait that doubles with each death in a row and is forgotten once the part has
been well for a while; one that cannot be started, because the disk is full, counts as dead. One that runs and shows no
life (frozen, or stopped by a signal) is killed, and so dies. The state is for people:
where it cannot be written, that is logged once, and the parts are watched all the same.
Programs of memtend are forked by a launcher where the system allows it; a launcher that dies is started again.
Asked to stop (SIGINT, SIGTERM), it tells the parts, those started last first, so that workers finish what they hold
while broker and store still answer.
"""

import fcntl
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType

import psutil

from memcore.clock import utc_now
from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.telemetry.events import Event
from workers.health import FROZEN_SECONDS, STARTING_SECONDS, LifeWatch
from workers.stack.forks import Launcher
from workers.stack.home import ServiceState, StackState, read_state, same_process, write_state
from workers.stack.service_process import ServiceProcess, await_any_end, memory_by_session
from workers.stack.services import ServiceSpec

#: Longest pause between two looks at the parts, in seconds; the end of a part, or a request to stop, ends it.
POLL_INTERVAL_SECONDS = 2.0

#: The same while a part is down, or is not ready yet.
_RESTARTING_SECONDS = 0.1

#: The same while they start or end, when somebody waits.
_WAITING_SECONDS = 0.02

#: Pause between two writings of the state, in seconds, while nothing changes; a change is written at once.
STATE_SECONDS = 5.0

#: Pause between two measurements of the parts' memory, in seconds, and the same after a change of the parts: one takes
#: a few milliseconds a process.
_MEMORY_SECONDS = 300.0
_MEMORY_CHANGED_SECONDS = 10.0

#: First wait before a dead part starts again. Each death in a row doubles it; where the part had been ready, so that it
#: can start and jobs wait for it, each adds as much.
FIRST_WAIT = timedelta(seconds=0.2)

#: Longest wait before a dead part starts again.
LONGEST_WAIT = timedelta(seconds=30)

#: More deaths in a row make the wait no longer.
_MOST_OUTAGES = 10

#: A part that has been up this long has recovered: its next death is a first one again.
WELL_AFTER = timedelta(seconds=20)

#: Exit code by which a part says that its configuration is wrong and starting it again is useless.
EXIT_CONFIG = 2

log = logging.getLogger("memtend.stack")


class Supervisor:
    """Runs the parts of one data folder, started in the order in which they are given.

    ``embedder`` names the one whose table the parts share; ``monotonic`` is the time in seconds.
    """

    def __init__(
        self,
        home: Path,
        parts: Sequence[ServiceSpec],
        env: Mapping[str, str],
        *,
        embedder: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home = home
        self._env = dict(env)
        is_forking = any(part.is_forked for part in parts)
        self._launcher = Launcher(env, home / "logs" / "launcher.log", embedder=embedder) if is_forking else None
        self._members = [ServiceProcess(part, home / "logs" / f"{part.name}.log", self._launcher) for part in parts]
        self._revive_at: dict[str, float] = {}
        self._outages: dict[str, int] = {}
        self._up_since: dict[str, float] = {}
        self._signs = LifeWatch(monotonic)
        self._stopping = False
        # Not through a lock or an event: a signal handler writes to it.
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._started_at = utc_now()
        #: Most memory that the launcher, all parts and their children held together, as sampled.
        self.peak_resident_bytes = 0
        self._resident: dict[int, int] = {}
        self._measured_at = -_MEMORY_SECONDS
        self._state_due = 0.0
        self._written: tuple[tuple[int | None, bool, int], ...] = ()
        self._born = psutil.Process().create_time()
        self._state_lost = False

    def preload(self) -> None:
        """Let the launcher begin to import what the parts share, for ``start`` to wait less."""
        if self._launcher is not None and self._launcher.is_usable:
            self._launcher.start()

    def start(self) -> None:
        """Start every part and wait until it is ready: each after those before it, unless it may start beside them.

        Raises MemoryConnectionError, naming its log, when a part did not become ready; what was started is stopped.
        """
        for stage in self._stages():
            for member in stage:
                if not member.check_needed():
                    # What the last stack left there would be a heartbeat that stands still.
                    self._ready_file(member).unlink(missing_ok=True)
                    continue
                while not self._stopping and not member.can_start:
                    time.sleep(_WAITING_SECONDS)
                if not self._stopping:
                    self._launch(member)
            self._await_ready([member for member in stage if member.part.is_awaited and not member.is_asleep])

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
        self._measured_at = -_MEMORY_SECONDS
        self._write_state()

    def watch(self) -> None:
        """Keep the parts alive until somebody asks to stop."""
        while not self._stopping:
            self._end_frozen()
            for member in self._members:
                self._check_parts(member)
            if self._launcher is not None:
                self._launcher.is_ready()
            if time.monotonic() >= self._state_due or self._seen() != self._written:
                self._write_state()
            is_waiting = any(member.handle < 0 or not member.was_ready for member in self._awake())
            seconds = _RESTARTING_SECONDS if is_waiting else POLL_INTERVAL_SECONDS
            await_any_end(self._members, seconds, woken=self._woken)

    def ask_to_stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Make ``watch`` return; safe to call from a signal handler."""
        self._stopping = True
        with suppress(BlockingIOError):
            os.write(self._waker, b"!")

    def stop(self) -> None:
        """Stop every part, those started last first, each with its own grace; kill what stays."""
        self._stopping = True
        for stage in reversed(self._stages()):
            asked_at = time.monotonic()
            for member in stage:
                member.ask_to_stop()
            for member in stage:
                self._await_end(member, asked_at)
        if self._launcher is not None:
            self._launcher.stop()
        self._write_state()

    @staticmethod
    def _await_end(member: ServiceProcess, asked_at: float) -> None:
        while member.process is not None and member.died() is None:
            if time.monotonic() - asked_at > member.part.stop_limit.total_seconds():
                log.warning(Event.STACK_PART_KILLED, extra={"part": member.part.name})
                break
            time.sleep(_WAITING_SECONDS)
        member.clear_away()

    def _ready_file(self, member: ServiceProcess) -> Path:
        return self._home / "run" / f"{member.part.name}.ready"

    def _launch(self, member: ServiceProcess) -> None:
        self._up_since[member.part.name] = time.monotonic()
        try:
            self._ready_file(member).unlink(missing_ok=True)
            member.start(self._env)
        except OSError as error:
            member.process, member.failed = None, error.strerror or type(error).__name__
            log.warning(Event.STACK_PART_NOT_STARTED, extra={"part": member.part.name, "error": member.failed})
            return
        # At once: if we are killed now, the next supervisor must know what to end.
        self._write_state()
        log.info(Event.STACK_PART_STARTED, extra={"part": member.part.name, "pid": member.pid})

    def _awake(self) -> list[ServiceProcess]:
        return [member for member in self._members if not member.is_asleep]

    def _end_frozen(self) -> None:
        """Kill every part that runs and has shown no life for as long, of our time, as makes it frozen."""
        shown = {
            member.part.name: ((member.pid, touched), FROZEN_SECONDS if member.was_ready else STARTING_SECONDS)
            for member in self._members
            if member.process is not None and member.died() is None
            if member.part.alive is not None and (touched := member.part.alive.touched_at()) is not None
        }
        frozen = self._signs.frozen(shown)
        for member in self._members:
            if member.part.name in frozen:
                log.warning(Event.STACK_PART_FROZEN, extra={"part": member.part.name})
                member.clear_away()

    def _check_parts(self, member: ServiceProcess) -> None:
        if member.process is None and not member.failed:
            # It slept, or was called while the launcher was busy.
            if member.check_needed() and member.can_start:
                self._launch(member)
            return
        name, code = member.part.name, member.died()
        if code is None:
            member.check_now()
            if time.monotonic() - self._up_since[name] > WELL_AFTER.total_seconds():
                self._outages.pop(name, None)
            return
        if name not in self._revive_at:
            member.clear_away()
            outages = self._outages[name] = min(self._outages.get(name, 0) + 1, _MOST_OUTAGES)
            next_wait = FIRST_WAIT * (outages if member.was_ready else 2 ** (outages - 1))
            wait = LONGEST_WAIT if code == EXIT_CONFIG else min(next_wait, LONGEST_WAIT)
            self._revive_at[name] = time.monotonic() + wait.total_seconds()
            log.warning(
                Event.STACK_PART_DIED, extra={"part": name, "exit_code": code, "wait_seconds": wait.total_seconds()}
            )
        elif time.monotonic() >= self._revive_at[name] and member.can_start:
            del self._revive_at[name]
            member.restarts += 1
            self._launch(member)

    def _write_state(self) -> None:
        now, seen = time.monotonic(), self._seen()
        self._state_due = now + STATE_SECONDS
        if now - self._measured_at >= (_MEMORY_SECONDS if seen == self._written else _MEMORY_CHANGED_SECONDS):
            self._measured_at = now
            self._resident = memory_by_session(self._leaders())
            self.peak_resident_bytes = max(self.peak_resident_bytes, sum(self._resident.values()))
        state = StackState(
            supervisor_pid=os.getpid(),
            supervisor_born=self._born,
            started_at=self._started_at,
            seen_at=utc_now(),
            peak_resident_bytes=self.peak_resident_bytes,
            parts=tuple(
                ServiceState(
                    name=member.part.name,
                    pid=pid,
                    born=member.born,
                    ready=ready,
                    starting=not member.was_ready and member.process is not None and member.died() is None,
                    restarts=restarts,
                    resident_bytes=self._resident.get(pid or 0, 0),
                )
                for member, (pid, ready, restarts) in zip(self._awake(), seen, strict=True)
            ),
            asleep=tuple(member.part.name for member in self._members if member.is_asleep),
        )
        self._written = seen
        try:
            write_state(self._home, state)
        except OSError as error:
            # Once: on a full disk it fails each second, and the log lies on that disk too.
            if not self._state_lost:
                log.warning(Event.STACK_STATE_UNWRITTEN, extra={"error": error.strerror or type(error).__name__})
            self._state_lost = True
            self._written = ()
        else:
            self._state_lost = False

    def _seen(self) -> tuple[tuple[int | None, bool, int], ...]:
        """Return of each part its pid, whether it works, and its restarts."""
        return tuple(
            (member.pid if member.died() is None else None, member.is_well, member.restarts) for member in self._awake()
        )

    def _leaders(self) -> list[int]:
        pids = [member.pid for member in self._members] + [self._launcher.pid if self._launcher is not None else None]
        return [pid for pid in pids if pid is not None]


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
