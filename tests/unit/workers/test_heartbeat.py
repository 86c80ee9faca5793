import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from workers.beat import scheduler_of
from workers.children import Children
from workers.consumer import RequeueUnknownConsumer
from workers.groups import STORE
from workers.health import (
    BEAT_SECONDS,
    FROZEN_SECONDS,
    LAST_LOOK_SECONDS,
    STALE_SECONDS,
    STARTING_SECONDS,
    Heartbeat,
    main,
)
from workers.lifecycle import LOOP_LIMIT_SECONDS, SignsOfLife, watch_heartbeat


@pytest.fixture
def heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Heartbeat:
    monkeypatch.setenv("MEMTEND_HOME", str(tmp_path))
    return Heartbeat.of(tmp_path, "worker-store")


def grow_old(heartbeat: Heartbeat, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(heartbeat.path, (then, then))


def test_a_part_that_never_took_a_job_is_not_well(heartbeat: Heartbeat, capsys: pytest.CaptureFixture[str]) -> None:
    assert not heartbeat.is_fresh()
    assert main(["worker-store"]) == 1
    assert capsys.readouterr().out == f"worker-store has not taken a job yet: there is no {heartbeat.path}\n"


def test_a_part_is_well_until_its_last_beat_is_too_old(heartbeat: Heartbeat) -> None:
    heartbeat.touch()
    assert heartbeat.is_fresh()
    assert main(["worker-store"]) == 0
    assert main(["worker-night"]) == 1
    grow_old(heartbeat, STALE_SECONDS - BEAT_SECONDS)
    assert main(["worker-store"]) == 0
    grow_old(heartbeat, STALE_SECONDS)
    assert main(["worker-store"]) == 1


def test_a_clock_that_was_set_back_makes_nobody_ill(heartbeat: Heartbeat) -> None:
    heartbeat.touch()
    grow_old(heartbeat, -3600)
    assert heartbeat.age_seconds() == 0
    assert heartbeat.is_fresh()


def test_the_folder_of_heartbeats_is_for_its_owner_alone(heartbeat: Heartbeat) -> None:
    heartbeat.touch()
    assert heartbeat.path.parent.stat().st_mode & 0o077 == 0


def test_a_worker_whose_jobs_cannot_begin_writes_no_heartbeat(
    heartbeat: Heartbeat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals, state = MagicMock(), {"is_ready": False}
    monkeypatch.setattr("workers.lifecycle.signals", signals)
    app: Any = SimpleNamespace(steps={"consumer": set()})
    settings: Any = SimpleNamespace(home=tmp_path)
    watch_heartbeat(app, settings, STORE, Children(), is_ready=lambda: state["is_ready"])
    (step,) = app.steps["consumer"]
    (on_ready,) = signals.worker_ready.connect.call_args_list[0].args
    consumer: Any = SimpleNamespace(connection=SimpleNamespace(connected=True))
    touches: list[Callable[[], None]] = [lambda: on_ready(sender=None), lambda: step._renew_until_end(consumer)]
    for touch in touches:
        state["is_ready"] = False
        touch()
        assert not heartbeat.path.exists()
        state["is_ready"] = True
        touch()
        assert heartbeat.is_fresh()
        heartbeat.path.unlink()


def test_each_sign_of_life_of_a_worker_looks_at_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signs, children = MagicMock(), Children()
    monkeypatch.setattr("workers.lifecycle.SignsOfLife", signs)
    app: Any = SimpleNamespace(steps={"consumer": set()})
    watch_heartbeat(app, SimpleNamespace(home=tmp_path), STORE, children, is_ready=bool)  # type: ignore[arg-type]
    assert signs.call_args.kwargs == {"beside": children.end_frozen}


@pytest.mark.parametrize("part", ["worker-store", "worker-llm", "beat"])
@pytest.mark.usefixtures("heartbeat")
def test_a_part_that_waits_is_alive_and_takes_no_jobs(tmp_path: Path, part: str) -> None:
    heartbeat, alive = Heartbeat.of(tmp_path, part), Heartbeat.alive(tmp_path, part)
    assert main(["--alive", part]) == 1
    heartbeat.touch()
    assert main(["--alive", part]) == 1
    alive.name_process(os.getpid(), time.time() - 2 * STALE_SECONDS)
    grow_old(heartbeat, STALE_SECONDS)
    grow_old(alive, FROZEN_SECONDS - BEAT_SECONDS)
    assert (main([part]), main(["--alive", part])) == (1, 0)
    grow_old(alive, FROZEN_SECONDS)
    assert main(["--alive", part]) == 1


def test_a_worker_is_alive_while_it_waits_for_its_broker() -> None:
    lived: list[str] = []

    class Connection:
        def ensure_connection(
            self, _errback: object, _retries: object, callback: Callable[[], None], interval_max: float, **_more: float
        ) -> str:
            assert interval_max <= 4
            for _ in range(3):
                callback()
            return "connected"

    consumer: Any = RequeueUnknownConsumer.__new__(RequeueUnknownConsumer)
    consumer.app = SimpleNamespace(
        conf=SimpleNamespace(broker_connection_retry_on_startup=True, broker_connection_max_retries=None)
    )
    consumer.first_connection_attempt, consumer.broker_connection_retry_attempt = True, 0
    consumer.on_alive = lambda: lived.append("alive")
    connection = Connection()
    assert consumer.ensure_connected(connection) == "connected"
    assert lived == ["alive"] * 3
    assert "ensure_connection" not in vars(connection)


def test_beat_is_alive_while_it_waits_for_its_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: Any = SimpleNamespace(home=tmp_path)
    kind: Any = scheduler_of(settings)
    scheduler = kind.__new__(kind)
    scheduler.app = SimpleNamespace(conf=SimpleNamespace(broker_connection_max_retries=None))
    shown: list[str] = []
    monkeypatch.setattr(SignsOfLife, "show", lambda _self: shown.append("alive"))

    def ensure_connection(
        errback: Callable[..., None],
        _retries: object,
        callback: Callable[[], None],
        interval_max: float,
        **_more: float,
    ) -> str:
        assert interval_max <= 4
        errback(OSError("a password"), 2.0)
        callback()
        return "connected"

    scheduler.connection = SimpleNamespace(ensure_connection=ensure_connection)
    assert scheduler._ensure_connected() == "connected"
    assert shown == ["alive"]
    assert [record.message for record in caplog.records] == ["beat.broker.away"]
    assert "a password" not in caplog.text


def test_a_part_whose_loop_hangs_shows_no_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive, pauses = Heartbeat.alive(tmp_path, "worker-store"), list[bool]()
    looks = list[bool]()
    signs = SignsOfLife(alive, pause_seconds=LOOP_LIMIT_SECONDS / 3, beside=lambda: looks.append(True))

    def sleep(_seconds: float) -> None:
        pauses.append(alive.path.exists())
        alive.path.unlink(missing_ok=True)
        if len(pauses) == 5:
            signs.show()
        if len(pauses) == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr("workers.lifecycle.time.sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        signs._run()
    assert pauses == [True, True, True, False, False, True]
    assert len(looks) == len(pauses), "children are looked at even then"


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a part that was stopped by a signal after it had shown life."""
    code = (
        "import sys, time, pathlib; from workers.health import Heartbeat; from workers.lifecycle import SignsOfLife\n"
        "SignsOfLife(Heartbeat.alive(pathlib.Path(sys.argv[1]), 'worker-store'), pause_seconds=3600).start()\n"
        "print('started', flush=True); time.sleep(3600)"
    )
    part = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with part:
        assert part.stdout is not None
        assert part.stdout.readline() == "started\n"
        part.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, part.pid, os.WSTOPPED)  # a signal takes a moment, in which its thread would touch the file
        yield part
        part.kill()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("workers.health.time", SimpleNamespace(time=time.time, sleep=waited.append))
    return waited


@pytest.mark.parametrize("more", [(), ("--alive",)])
def test_a_check_ends_a_frozen_part(
    more: tuple[str, ...], heartbeat: Heartbeat, tmp_path: Path, stopped: subprocess.Popen[str], looks: list[float]
) -> None:
    heartbeat.touch()
    alive = Heartbeat.alive(tmp_path, "worker-store")
    grow_old(alive, FROZEN_SECONDS - BEAT_SECONDS)
    assert main(["--end-frozen", *more, "worker-store"]) == 0
    assert stopped.poll() is None
    grow_old(alive, FROZEN_SECONDS)
    assert main([*more, "worker-store"]) == (1 if more else 0)
    assert stopped.poll() is None
    assert main(["--end-frozen", *more, "worker-store"]) == 1
    assert stopped.wait(timeout=60) == -signal.SIGKILL
    assert looks == [LAST_LOOK_SECONDS]
    # It has gone: nobody else is ended in its place.
    assert main(["--end-frozen", "--alive", "worker-store"]) == 1


def test_a_part_that_has_not_been_ready_may_take_its_time(
    heartbeat: Heartbeat, tmp_path: Path, stopped: subprocess.Popen[str], looks: list[float]
) -> None:
    alive = Heartbeat.alive(tmp_path, "worker-store")
    for before in (None, 3600):  # a worker that ran before it on this folder was ready
        if before:
            heartbeat.touch()
            grow_old(heartbeat, before)
        grow_old(alive, STARTING_SECONDS - BEAT_SECONDS)
        assert main(["--end-frozen", "--alive", "worker-store"]) == 0
        assert stopped.poll() is None
    grow_old(alive, STARTING_SECONDS)
    assert main(["--end-frozen", "--alive", "worker-store"]) == 1
    assert stopped.wait(timeout=60) == -signal.SIGKILL
    assert looks == [LAST_LOOK_SECONDS]


def test_a_check_ends_nobody_who_shows_life_at_the_last_look(
    heartbeat: Heartbeat, tmp_path: Path, stopped: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat.touch()
    alive = Heartbeat.alive(tmp_path, "worker-store")
    grow_old(alive, 3600)  # the clock was set, or the machine slept
    monkeypatch.setattr("workers.health.time", SimpleNamespace(time=time.time, sleep=lambda _: alive.touch()))
    assert main(["--end-frozen", "worker-store"]) == 0
    assert stopped.poll() is None


def test_a_part_that_froze_before_the_clock_was_set_back_is_ended(
    heartbeat: Heartbeat, tmp_path: Path, stopped: subprocess.Popen[str], looks: list[float]
) -> None:
    heartbeat.touch()
    grow_old(Heartbeat.alive(tmp_path, "worker-store"), -400 * 86_400)
    assert main(["--end-frozen", "--alive", "worker-store"]) == 1
    assert stopped.wait(timeout=60) == -signal.SIGKILL
    assert looks == [LAST_LOOK_SECONDS]


@pytest.mark.parametrize("named", ["", "no process", "{pid} 1.5", "-1 1.5", f"{10**30} 1.5", "{pid} nan"])
def test_a_check_ends_no_process_that_it_does_not_know(
    named: str, heartbeat: Heartbeat, tmp_path: Path, stopped: subprocess.Popen[str], looks: list[float]
) -> None:
    heartbeat.touch()
    alive = Heartbeat.alive(tmp_path, "worker-store")
    alive.path.write_text(named.format(pid=stopped.pid), encoding="ascii")
    grow_old(alive, 3600)
    assert main(["--end-frozen", "--alive", "worker-store"]) == 1
    assert looks == [LAST_LOOK_SECONDS]
    assert stopped.poll() is None


@pytest.mark.parametrize("argv", [[], ["--end-frozen"], ["worker-store", "beat"]])
def test_a_wrong_call_is_no_sick_worker(argv: list[str]) -> None:
    assert main(argv) == 2


def test_the_check_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, workers.health as h; h.main(['beat']); print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.splitlines()[-1].split())
    assert loaded - {"__main__"} - sys.stdlib_module_names == {"memcore", "workers"}
