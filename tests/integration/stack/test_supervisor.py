"""The supervisor over tiny real processes: shells that sleep, die, or do not want to go."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
from support.present import present
from support.running_stack import wait_until

from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.telemetry.events import Event
from workers.health import FROZEN_SECONDS, STALE_SECONDS, STARTING_SECONDS, Heartbeat
from workers.stack import supervisor as supervising
from workers.stack.home import StackState, create_folders, read_state, same_process, sleeping_parts, waiting_parts
from workers.stack.service_process import await_any_end
from workers.stack.services import START_LIMIT, STOP_LIMIT, ServiceSpec
from workers.stack.supervisor import EXIT_CONFIG, Supervisor, take_over

#: Shell: waits for a signal and goes.
WELL = "touch $READY; exec sleep 600"

#: Shell: notes that it was asked to stop, then goes.
NOTES_ITS_END = 'trap "echo $NAME >> $ORDER; exit 0" TERM; touch $READY; while :; do sleep 0.02; done'

#: Shell: does not want to go.
STUBBORN = 'trap "" TERM; touch $READY; while :; do sleep 0.02; done'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    create_folders(home)
    return home


MakePart = Callable[..., ServiceSpec]


@pytest.fixture
def make_part(home: Path) -> MakePart:
    def make(
        name: str,
        script: str = WELL,
        *,
        is_beside: bool = False,
        is_needed: Callable[[], bool] | None = None,
        start_limit: timedelta = START_LIMIT,
        stop_limit: timedelta = STOP_LIMIT,
    ) -> ServiceSpec:
        ready = home / "run" / f"{name}.ready"
        return ServiceSpec(
            name=name,
            argv=("/bin/sh", "-c", script),
            is_ready=ready.exists,
            env={"READY": str(ready), "NAME": name, "ORDER": str(home / "order"), "RUNS": str(home / f"{name}.runs")},
            is_beside=is_beside,
            is_needed=is_needed,
            start_limit=start_limit,
            stop_limit=stop_limit,
        )

    return make


MakeSupervisor = Callable[..., Supervisor]


@pytest.fixture
def supervise(home: Path) -> Generator[MakeSupervisor]:
    made: list[Supervisor] = []

    def make(*parts: ServiceSpec) -> Supervisor:
        made.append(Supervisor(home, parts, {"PATH": os.environ["PATH"]}))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def watched(supervise: MakeSupervisor) -> Generator[MakeSupervisor]:
    threads: list[tuple[Supervisor, threading.Thread]] = []

    def make(*parts: ServiceSpec) -> Supervisor:
        made = supervise(*parts)
        made.start()
        thread = threading.Thread(target=made.watch)
        thread.start()
        threads.append((made, thread))
        return made

    yield make
    for made, thread in threads:
        made.ask_to_stop()
        thread.join()


def pid_of(home: Path, name: str) -> int | None:
    state = present(read_state(home))
    return next(part.pid for part in state.parts if part.name == name)


def restarts(home: Path, name: str) -> int:
    state = present(read_state(home))
    return next(part.restarts for part in state.parts if part.name == name)


def test_a_started_stack_is_told_to_the_world(home: Path, make_part: MakePart, supervise: MakeSupervisor) -> None:
    supervise(make_part("one"), make_part("two")).start()
    state = present(read_state(home))
    assert state.is_alive
    assert [(part.name, part.ready, part.restarts) for part in state.parts] == [("one", True, 0), ("two", True, 0)]
    assert all(part.pid and same_process(part.pid, part.born) for part in state.parts)
    assert all(part.resident_bytes > 0 for part in state.parts)


def test_a_part_whose_heartbeat_stopped_is_not_ready_although_it_runs(
    home: Path, make_part: MakePart, watched: MakeSupervisor
) -> None:
    heartbeat = Heartbeat.of(home, "one")
    watched(replace(make_part("one"), is_well=heartbeat.is_fresh))

    def is_ready() -> bool:
        state = read_state(home)
        return state is not None and state.parts[0].ready

    assert is_ready()
    long_ago = time.time() - 2 * STALE_SECONDS
    os.utime(heartbeat.path, (long_ago, long_ago))
    wait_until(lambda: not is_ready(), what="the supervisor to see it")
    assert pid_of(home, "one") is not None
    assert restarts(home, "one") == 0
    heartbeat.touch()
    wait_until(is_ready, what="the supervisor to see it again")


#: Shell: shows life all the time, first of all: one that is ready may be stopped at once.
LIVES = ": > $ALIVE; touch $READY; while :; do : > $ALIVE; sleep 0.05; done"


class Clock:
    """The supervisor's time, which the test moves in steps that a supervisor that was awake would see."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def living(home: Path, make_part: MakePart) -> Callable[[str], ServiceSpec]:
    def make(name: str) -> ServiceSpec:
        part = make_part(name, LIVES)
        alive = Heartbeat.alive(home, name)
        return replace(part, alive=alive, env={**part.env, "ALIVE": str(alive.path)})

    return make


def test_a_part_that_shows_no_life_is_replaced(
    home: Path, living: Callable[[str], ServiceSpec], caplog: pytest.LogCaptureFixture
) -> None:
    clock, one, two = Clock(), Heartbeat.alive(home, "one"), Heartbeat.alive(home, "two")
    supervisor = Supervisor(home, [living("one"), living("two")], {"PATH": os.environ["PATH"]}, monotonic=clock)
    supervisor.start()
    try:
        first, other = pid_of(home, "one"), pid_of(home, "two")
        assert first is not None
        look(supervisor)
        # A part that lives is left alone, however long it does.
        pass_time(supervisor, clock, one, two)
        assert (pid_of(home, "one"), pid_of(home, "two")) == (first, other)
        stop(first)
        pass_time(supervisor, clock, two)
        wait_until(lambda: look(supervisor) or restarts(home, "one") == 1, what="a new process")
        assert pid_of(home, "one") not in {None, first}
        assert (pid_of(home, "two"), restarts(home, "two")) == (other, 0)
        assert [record.part for record in caplog.records if record.message == Event.STACK_PART_FROZEN] == ["one"]  # type: ignore[attr-defined]
        pass_time(supervisor, clock, one, two)
        assert restarts(home, "one") == 1, "the new one lives"
    finally:
        supervisor.stop()


def test_after_the_supervisor_slept_its_parts_have_time_to_show_life(
    home: Path, living: Callable[[str], ServiceSpec]
) -> None:
    clock = Clock()
    supervisor = Supervisor(home, [living("one")], {"PATH": os.environ["PATH"]}, monotonic=clock)
    supervisor.start()
    try:
        first = present(pid_of(home, "one"))
        look(supervisor)
        stop(first)
        clock.seconds += 10 * STARTING_SECONDS
        look(supervisor)
        look(supervisor)
        os.kill(first, signal.SIGCONT)
        assert (pid_of(home, "one"), restarts(home, "one")) == (first, 0)
    finally:
        supervisor.stop()


def test_a_part_that_starts_may_take_its_time(home: Path, living: Callable[[str], ServiceSpec]) -> None:
    clock = Clock()
    supervisor = Supervisor(home, [living("one"), living("two")], {"PATH": os.environ["PATH"]}, monotonic=clock)
    supervisor.start()

    def pass_silently(seconds: float) -> None:
        """Let a fifth more than so long pass, in steps as short as those of a supervisor that was awake."""
        for _ in range(6):
            clock.seconds += seconds / 5
            look(supervisor)

    try:
        first, other = pid_of(home, "one"), pid_of(home, "two")
        assert first is not None
        assert other is not None
        stop(first)
        stop(other)
        # As it were, it still starts: on a busy machine that takes its time.
        Heartbeat.of(home, "one").path.unlink()
        supervisor._members[0].was_ready = False
        look(supervisor)
        # Between two looks this process slept, if only for half the limit: the parts may have, too.
        clock.seconds += FROZEN_SECONDS * 0.6
        look(supervisor)
        for _ in range(4):
            clock.seconds += FROZEN_SECONDS / 5
            look(supervisor)
        assert (restarts(home, "one"), restarts(home, "two")) == (0, 0)
        pass_silently(FROZEN_SECONDS)
        wait_until(lambda: look(supervisor) or restarts(home, "two") == 1, what="a new process")
        assert (pid_of(home, "one"), restarts(home, "one")) == (first, 0)
        pass_silently(STARTING_SECONDS)
        wait_until(lambda: look(supervisor) or restarts(home, "one") == 1, what="a new process of the one that started")
    finally:
        supervisor.stop()


def stop(pid: int) -> None:
    """Stop a part, and wait until it shows no life any more."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def look(supervisor: Supervisor) -> bool:
    """Look at the parts once, as ``watch`` does; False, so that a condition may begin with it."""
    supervisor._end_frozen()
    for member in supervisor._members:
        supervisor._check_parts(member)
    supervisor._write_state()
    return False


def pass_time(supervisor: Supervisor, clock: Clock, *living: Heartbeat) -> None:
    """Let the time of a frozen part pass, in which each part that lives shows it."""
    for _ in range(5):
        touched = [each.touched_at() for each in living]
        while any(each.touched_at() == at for each, at in zip(living, touched, strict=True)):
            time.sleep(0.01)
        clock.seconds += FROZEN_SECONDS / 3
        look(supervisor)


def test_ready_names_the_workers_that_take_no_jobs(home: Path, make_part: MakePart, watched: MakeSupervisor) -> None:
    heartbeat, flower = Heartbeat.of(home, "worker-store"), Heartbeat.of(home, "flower")
    watched(
        replace(make_part("worker-store"), is_well=heartbeat.is_fresh),
        replace(make_part("flower"), is_well=flower.is_fresh),
    )
    assert waiting_parts(home) == ()
    os.utime(flower.path, (0, 0))

    def is_flower_seen() -> bool:
        state = read_state(home)
        return state is not None and any(part.name == "flower" and not part.ready for part in state.parts)

    wait_until(is_flower_seen, what="the supervisor to see that Flower is not well")
    assert waiting_parts(home) == ()
    os.utime(heartbeat.path, (0, 0))
    wait_until(lambda: waiting_parts(home) == ("worker-store",), what="the supervisor to see it")
    heartbeat.touch()
    wait_until(lambda: waiting_parts(home) == (), what="the supervisor to see it again")


def test_a_part_that_nobody_needs_sleeps_until_somebody_does_and_then_stays(
    home: Path, make_part: MakePart, watched: MakeSupervisor
) -> None:
    job, left_over = home / "job", home / "run" / "sleeper.ready"
    left_over.touch()
    watched(make_part("one"), make_part("sleeper", is_needed=job.exists))
    state = present(read_state(home))
    assert [part.name for part in state.parts] == ["one"]
    assert state.asleep == ("sleeper",)
    assert sleeping_parts(home) == {"sleeper"}
    # A heartbeat of the last stack would look like one that stands still.
    assert not left_over.exists()
    job.touch()
    wait_until(lambda: not sleeping_parts(home), what="the part to be called")
    first = present(pid_of(home, "sleeper"))
    job.unlink()
    os.kill(first, signal.SIGKILL)
    wait_until(
        lambda: restarts(home, "sleeper") == 1 and pid_of(home, "sleeper") not in {None, first}, what="a new process"
    )


def test_the_stack_does_not_wait_for_a_part_that_loads(
    home: Path, make_part: MakePart, watched: MakeSupervisor
) -> None:
    slow = replace(make_part("slow", "while [ ! -e $ORDER ]; do sleep 0.02; done; " + WELL), is_awaited=False)
    watched(slow, make_part("one"))

    def seen() -> dict[str, tuple[bool, bool]]:
        state = present(read_state(home))
        return {part.name: (part.ready, part.starting) for part in state.parts}

    assert seen() == {"slow": (False, True), "one": (True, False)}
    (home / "order").touch()
    wait_until(lambda: seen()["slow"] == (True, False), what="the slow part to be ready")


def test_parts_of_a_stack_that_has_ended_do_not_sleep(
    home: Path, make_part: MakePart, supervise: MakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervise(make_part("one"), make_part("sleeper", is_needed=lambda: False)).start()
    assert sleeping_parts(home) == {"sleeper"}
    monkeypatch.setattr(StackState, "is_alive", False)
    assert not sleeping_parts(home)


def test_a_part_that_dies_is_started_again(home: Path, make_part: MakePart, watched: MakeSupervisor) -> None:
    watched(make_part("one"), make_part("two"))
    first, other = pid_of(home, "one"), pid_of(home, "two")
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: restarts(home, "one") == 1 and pid_of(home, "one") not in {None, first}, what="a new process")
    assert pid_of(home, "two") == other


def test_each_death_in_a_row_makes_the_wait_longer(home: Path, make_part: MakePart, watched: MakeSupervisor) -> None:
    watched(make_part("mayfly", 'date +%s.%N >> "$RUNS"; touch $READY; sleep 0.3; exit 1'))
    runs = home / "mayfly.runs"
    wait_until(lambda: len(runs.read_text().split()) >= 4, what="four lives")
    at = list(map(float, runs.read_text().split()))
    gaps = [later - earlier for earlier, later in itertools.pairwise(at)]
    # each life takes 0.3 s and each look 0.1 s
    for gap, wait in zip(gaps, (0.2, 0.4, 0.6), strict=False):
        assert gap >= wait + 0.3


def test_a_mistake_in_the_configuration_is_not_tried_again_soon(
    home: Path, make_part: MakePart, watched: MakeSupervisor
) -> None:
    made = watched(make_part("wrong", f'echo x >> "$RUNS"; touch $READY; sleep 0.2; exit {EXIT_CONFIG}'))
    wait_until(lambda: "wrong" in made._revive_at, what="the death to be seen")
    wait = made._revive_at["wrong"] - time.monotonic()
    assert wait > supervising.LONGEST_WAIT.total_seconds() - 5
    assert (home / "wrong.runs").read_text() == "x\n"


def test_a_part_that_was_ready_is_not_long_without_a_successor(
    home: Path, make_part: MakePart, watched: MakeSupervisor
) -> None:
    made = watched(make_part("one"))
    made._outages["one"] = 1000
    os.kill(pid_of(home, "one") or 0, signal.SIGKILL)
    wait_until(lambda: "one" in made._revive_at, what="the death to be seen")

    assert made._revive_at["one"] - time.monotonic() <= 2  # doubled it would be 30


def test_a_part_that_cannot_start_for_days_is_tried_again(
    home: Path, make_part: MakePart, supervise: MakeSupervisor
) -> None:
    made = supervise(make_part("one", '[ -e "$RUNS" ] && exit 1; echo x > "$RUNS"; touch "$READY"; exec sleep 3600'))
    made.start()
    made._outages["one"] = 10_000
    os.kill(pid_of(home, "one") or 0, signal.SIGKILL)
    (member,) = made._members

    def waits_for_its_third_life() -> bool:
        made._check_parts(member)
        return member.restarts == 1 and "one" in made._revive_at

    wait_until(waits_for_its_third_life, what="two deaths")
    assert 25 < made._revive_at["one"] - time.monotonic() <= 30


def _disk_full(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_state_that_cannot_be_written_is_said_once_and_stops_nothing(
    home: Path,
    make_part: MakePart,
    watched: MakeSupervisor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    health_checks: list[object] = []

    def write(*given: object) -> None:
        health_checks.append(given)
        _disk_full()

    with monkeypatch.context() as full:
        full.setattr(supervising, "STATE_SECONDS", 0.0)
        full.setattr(supervising, "write_state", write)
        made = watched(make_part("one"))
        pid = present(made._members[0].pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: made._members[0].restarts == 1 and made._members[0].is_well, what="the part to be back")
        assert len(health_checks) > 2
    assert [record.message for record in caplog.records].count("stack.state.unwritten") == 1
    wait_until(lambda: read_state(home) is not None, what="the state, now that there is room")
    assert restarts(home, "one") == 1
    assert not list((home / "run").glob("state.*[0-9]"))


def test_a_part_that_cannot_be_started_is_tried_again_until_it_can(
    make_part: MakePart, watched: MakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = watched(make_part("one"), make_part("two"))
    member = made._members[0]
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", _disk_full)
        first = present(member.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: member.restarts >= 2, what="two tries")
        assert member.pid is None
    wait_until(lambda: member.is_well, what="the part to be back")
    assert member.pid not in {None, first}


def test_a_part_that_a_full_disk_keeps_from_starting_is_named(
    make_part: MakePart, supervise: MakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = supervise(make_part("one"))
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", _disk_full)
        with pytest.raises(MemoryConnectionError, match=r"one could not be started \(No space left on device\)"):
            made.start()


def test_parts_stop_in_reverse_and_those_beside_each_other_together(
    home: Path, make_part: MakePart, supervise: MakeSupervisor
) -> None:
    names = ("broker", "store", "worker")
    made = supervise(*(make_part(name, NOTES_ITS_END) for name in names), make_part("beat", WELL, is_beside=True))
    made.start()
    made.stop()
    assert (home / "order").read_text().split() == ["worker", "store", "broker"]
    state = present(read_state(home))
    assert [part.pid for part in state.parts] == [None] * 4


def test_what_does_not_want_to_go_is_killed_with_its_children(
    home: Path, make_part: MakePart, supervise: MakeSupervisor
) -> None:
    made = supervise(make_part("stubborn", STUBBORN, stop_limit=timedelta(seconds=0.3)))
    made.start()
    pid = present(pid_of(home, "stubborn"))
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    made.stop()
    psutil.wait_procs(family, timeout=10)
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family)


def test_children_that_outlive_their_part_are_ended_before_it_starts_again(
    home: Path, make_part: MakePart, watched: MakeSupervisor
) -> None:
    watched(make_part("parent", 'sleep 600 & echo $! >> "$RUNS"; touch $READY; wait'))
    runs = home / "parent.runs"
    orphan = psutil.Process(int(runs.read_text().split()[0]))
    pid = present(pid_of(home, "parent"))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: restarts(home, "parent") == 1, what="the new part")
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


def test_a_part_that_dies_while_starting_is_named_with_its_log_and_all_is_stopped(
    home: Path, make_part: MakePart, supervise: MakeSupervisor
) -> None:
    made = supervise(make_part("good"), make_part("bad", "echo no luck; exit 7"))
    with pytest.raises(MemoryConnectionError, match=r"bad ended with exit code 7; its log is .*bad\.log"):
        made.start()
    assert (home / "logs" / "bad.log").read_text() == "no luck\n"
    assert pid_of(home, "good") is None


def test_a_part_that_is_never_ready_is_given_up(make_part: MakePart, supervise: MakeSupervisor) -> None:
    made = supervise(make_part("slow", "sleep 600", start_limit=timedelta(seconds=0.2)))
    with pytest.raises(MemoryConnectionError, match="slow was not ready in time"):
        made.start()


def test_a_ready_file_of_an_earlier_life_does_not_count(
    home: Path, make_part: MakePart, supervise: MakeSupervisor
) -> None:
    (home / "run" / "late.ready").touch()
    made = supervise(make_part("late", "sleep 600", start_limit=timedelta(seconds=0.2)))
    with pytest.raises(MemoryConnectionError, match="not ready"):
        made.start()


def test_a_second_supervisor_is_refused(home: Path) -> None:
    handle = take_over(home)
    with pytest.raises(MemoryConfigError, match=r"a stack runs at .* already"):
        take_over(home)
    os.close(handle)
    os.close(take_over(home))


def test_what_a_killed_supervisor_left_is_ended_by_the_next(home: Path, make_part: MakePart) -> None:
    part = make_part("left")
    code = (
        "import sys, time; from pathlib import Path\n"
        "from workers.stack.services import ServiceSpec; from workers.stack.supervisor import Supervisor, take_over\n"
        "home = Path(sys.argv[1]); take_over(home)\n"
        "ready = home / 'run' / 'left.ready'\n"
        "part = ServiceSpec(name='left', argv=('/bin/sh', '-c', sys.argv[2]), is_ready=ready.exists,"
        " env={'READY': str(ready)})\n"
        "Supervisor(home, [part], {'PATH': sys.argv[3]}).start()\n"
        "print('up', flush=True); time.sleep(600)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(home), part.argv[2], os.environ["PATH"]], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "up\n"
        pid = present(pid_of(home, "left"))
        with pytest.raises(MemoryConfigError):
            take_over(home)
    finally:
        other.kill()
        other.wait()
        if other.stdout is not None:
            other.stdout.close()
    left = psutil.Process(pid)
    assert left.is_running()
    os.close(take_over(home))
    assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE


def test_a_request_to_stop_ends_the_wait_for_the_parts(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, [], {})
    supervisor.ask_to_stop()
    await_any_end([], 3_600, woken=supervisor._woken)
