"""The launcher: what it forks is what the supervisor would have started, and nobody's death takes others with it."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.present import present
from support.repository import ROOT
from support.running_stack import clean_environ, wait_until

from memcore.programs import program_argv
from workers.stack import forks
from workers.stack.forks import EXIT_UNKNOWN, ForkedProcess, Launcher
from workers.stack.home import create_folders, read_state
from workers.stack.launcher import EXIT_THREADS
from workers.stack.services import ServiceSpec
from workers.stack.supervisor import Supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="parts are forked on Linux alone")

#: The variables of every part here.
ENVIRON = {**clean_environ(), "PYTHONPATH": str(ROOT / "tests"), "OMP_NUM_THREADS": "1", "OF_ALL": "base"}


def argv(path: Path, end: str) -> tuple[str, ...]:
    return (*program_argv("support.launched_part"), str(path), end)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.fixture(scope="module", autouse=True)
def quick() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forks, "program_argv", lambda _: program_argv("support.quick_launcher"))
        yield


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Generator[Launcher]:
    """A launcher that all tests share; one that is killed is started again."""
    started = Launcher(ENVIRON, tmp_path_factory.mktemp("launcher") / "launcher.log")
    started.start()
    yield started
    started.stop()


@dataclass(frozen=True, kw_only=True)
class Part:
    process: ForkedProcess
    facts: Path
    out: Path

    def reported(self) -> dict[str, Any]:
        wait_until(self.facts.exists, what="the part to say what it is")
        reported: dict[str, Any] = json.loads(self.facts.read_text())
        return reported


Fork = Callable[..., Part]


@pytest.fixture
def fork(launcher: Launcher, tmp_path: Path) -> Generator[Fork]:
    parts: list[Part] = []

    def start(end: str = "stay") -> Part:
        wait_until(launcher.is_ready, what="the launcher")
        facts, out = tmp_path / f"{len(parts)}.json", tmp_path / f"{len(parts)}.log"
        with out.open("ab") as log:
            process = launcher.fork(argv(facts, end), {"OF_ONE": "own"}, log.fileno())
        parts.append(Part(process=process, facts=facts, out=out))
        return parts[-1]

    yield start
    for part in parts:
        part.process.kill()
        part.process.wait()


def test_a_forked_part_is_what_the_supervisor_would_have_started(launcher: Launcher, fork: Fork) -> None:
    part = fork()
    reported = part.reported()
    assert reported["pid"] == reported["session"] == part.process.pid
    assert reported["parent"] == launcher.pid
    assert reported["umask"] == 0o077
    assert stat.S_IMODE(part.facts.stat().st_mode) == 0o600
    assert reported["threads"] == 1
    assert reported["descriptors"] == [0, 1, 2]
    assert reported["input"] == os.devnull
    assert reported["argv"] == [str(part.facts), "stay"]
    assert reported["folder"] == str(Path.cwd())
    assert reported["signals"] == [True, True]
    environ = reported["environ"]
    assert {name: environ[name] for name in ENVIRON} == ENVIRON
    assert environ["OF_ONE"] == "own"
    assert reported["preloaded"]
    assert part.out.read_text() == "written\n"
    shown = " ".join(psutil.Process(part.process.pid).cmdline())
    assert shown.startswith(sys.executable)
    assert "support.launched_part" in shown


def test_two_parts_differ_where_processes_must(fork: Fork) -> None:
    one, other = fork(), fork()
    assert one.reported()["environ"] == other.reported()["environ"]
    assert one.process.pid != other.process.pid
    assert one.process.poll() is None


@pytest.mark.parametrize("code", [0, 2, 75])
def test_an_exit_code_is_told_and_the_process_is_forgotten_after_it(fork: Fork, code: int) -> None:
    part = fork(str(code))
    wait_until(lambda: part.process.poll() is not None, what="its end")
    assert part.process.poll() == code
    # Its pid is nobody else's until it is waited for.
    assert psutil.Process(part.process.pid).status() == psutil.STATUS_ZOMBIE
    assert part.process.wait() == code
    assert not psutil.pid_exists(part.process.pid)


@pytest.mark.parametrize(("end", "code"), [("terminate", -signal.SIGTERM), ("kill", -signal.SIGKILL)])
def test_a_signal_that_ends_a_part_is_reported(fork: Fork, end: str, code: int) -> None:
    part = fork()
    part.reported()
    getattr(part.process, end)()
    assert part.process.wait() == code
    # To one that is gone, a signal says nothing.
    part.process.terminate()


def test_a_killed_launcher_takes_no_part_with_it_and_another_starts_the_next(launcher: Launcher, fork: Fork) -> None:
    part = fork()
    part.reported()
    killed = present(launcher.pid)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not is_alive(killed), what="its end")
    assert part.process.poll() is None
    later = fork("7")
    assert launcher.pid != killed
    assert is_alive(part.process.pid)
    assert later.process.wait() == 7
    part.process.kill()
    assert part.process.wait() == EXIT_UNKNOWN


def test_a_launcher_that_hangs_is_replaced(
    launcher: Launcher, fork: Fork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fork().reported()
    hung = present(launcher.pid)
    os.kill(hung, signal.SIGSTOP)
    with monkeypatch.context() as hurried, (tmp_path / "log").open("ab") as log:
        hurried.setattr(forks, "ANSWER_LIMIT", forks.ANSWER_LIMIT / 100)
        with pytest.raises(ChildProcessError, match="does not answer"):
            launcher.fork(argv(tmp_path / "none", "0"), {}, log.fileno())
    assert not is_alive(hung)
    assert fork("0").process.wait() == 0
    assert launcher.pid != hung


def test_at_the_end_of_its_supervisor_it_ends_with_the_part_that_nobody_may_have_noted(tmp_path: Path) -> None:
    own = Launcher(ENVIRON, tmp_path / "launcher.log")
    wait_until(own.is_ready, what="the launcher")
    with (tmp_path / "log").open("ab") as log:
        noted = own.fork(argv(tmp_path / "noted", "stay"), {}, log.fileno())
        latest = own.fork(argv(tmp_path / "latest", "stay"), {}, log.fileno())
    wait_until((tmp_path / "latest").exists, what="both to run")
    process, line = own._process, own._line
    assert process is not None
    assert line is not None
    try:
        line.close()
        assert process.wait(30) == 0
        wait_until(lambda: not is_alive(latest.pid), what="the end of the latest")
        assert is_alive(noted.pid)
    finally:
        os.kill(noted.pid, signal.SIGKILL)
        for each in (noted, latest):
            os.close(each.handle)


@pytest.mark.slow  # it imports everything
def test_what_is_preloaded_runs_no_thread_and_is_nothing_that_a_stack_does_not_need() -> None:
    code = (
        "import os, sys; from workers.stack.launcher import PRELOADED, preload; preload('static')\n"
        "print(len(os.listdir('/proc/self/task')))\n"
        "print(*(name for name in PRELOADED if name not in sys.modules))\n"
        "print(*(name for name in ('celery.apps.worker', 'alembic', 'mem0', 'mcp', 'torch', 'onnxruntime',"
        " 'prompt_toolkit', 'rich') if name in sys.modules))\n"
        "kib = [int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('RssFile')]\n"
        "print(kib[0] < 20_000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**ENVIRON, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    # 46 MiB of libraries are read as they are imported
    assert done.stdout == "1\n\n\nTrue\n", done.stderr


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    create_folders(home)
    return home


@pytest.fixture
def part(home: Path) -> ServiceSpec:
    ready = home / "run" / "one.ready"
    return ServiceSpec(name="one", argv=argv(ready, "stay"), is_ready=ready.exists, is_forked=True)


@pytest.fixture
def watch(home: Path) -> Generator[Callable[[ServiceSpec], Supervisor]]:
    watched: list[tuple[Supervisor, threading.Thread]] = []

    def start(part: ServiceSpec) -> Supervisor:
        supervisor = Supervisor(home, [part], ENVIRON)
        supervisor.start()
        thread = threading.Thread(target=supervisor.watch)
        thread.start()
        watched.append((supervisor, thread))
        return supervisor

    yield start
    for supervisor, thread in watched:
        supervisor.ask_to_stop()
        thread.join()
        supervisor.stop()


def seen(home: Path) -> tuple[int | None, bool, int]:
    state = present(read_state(home))
    return state.parts[0].pid, state.parts[0].ready, state.parts[0].restarts


def test_a_killed_part_and_a_killed_launcher_come_back(
    home: Path, part: ServiceSpec, watch: Callable[[ServiceSpec], Supervisor]
) -> None:
    launcher = present(watch(part)._launcher)
    first, forker = seen(home)[0], launcher.pid
    assert first is not None
    assert forker is not None
    assert psutil.Process(first).ppid() == forker
    os.kill(forker, signal.SIGKILL)
    wait_until(lambda: launcher.pid not in {None, forker}, what="another launcher")
    assert seen(home) == (first, True, 0)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: seen(home)[1:] == (True, 1), what="the part to be back")
    again = present(seen(home)[0])
    assert psutil.Process(again).ppid() == launcher.pid


@pytest.mark.parametrize("code", [EXIT_THREADS, 1])
def test_where_nothing_can_be_forked_parts_are_started_without_a_launcher(
    home: Path,
    part: ServiceSpec,
    watch: Callable[[ServiceSpec], Supervisor],
    monkeypatch: pytest.MonkeyPatch,
    code: int,
) -> None:
    monkeypatch.setattr(forks, "program_argv", lambda _: (sys.executable, "-c", f"raise SystemExit({code})"))
    launcher = present(watch(part)._launcher)
    assert not launcher.is_usable
    pid = present(seen(home)[0])
    assert psutil.Process(pid).ppid() == os.getpid()
    reported = json.loads((home / "run" / "one.ready").read_text())
    assert (reported["session"], reported["umask"], reported["preloaded"]) == (pid, 0o077, False)
