import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from workers.groups import STORE
from workers.health import BEAT_SECONDS, STALE_SECONDS, Heartbeat, main
from workers.lifecycle import watch_heartbeat

if TYPE_CHECKING:
    from collections.abc import Callable


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
    watch_heartbeat(app, settings, STORE, is_ready=lambda: state["is_ready"])
    (step,) = app.steps["consumer"]
    (on_ready,) = signals.worker_ready.connect.call_args.args
    consumer = SimpleNamespace(connection=SimpleNamespace(connected=True))
    touches: list[Callable[[], None]] = [lambda: on_ready(sender=None), lambda: step._renew_until_end(consumer)]
    for touch in touches:
        state["is_ready"] = False
        touch()
        assert not heartbeat.path.exists()
        state["is_ready"] = True
        touch()
        assert heartbeat.is_fresh()
        heartbeat.path.unlink()


@pytest.mark.parametrize("argv", [[], ["worker-store", "beat"]])
def test_a_wrong_call_is_no_sick_worker(argv: list[str]) -> None:
    assert main(argv) == 2


def test_the_check_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, workers.health as h; h.main(['beat']); print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.splitlines()[-1].split())
    assert loaded - {"__main__"} - sys.stdlib_module_names == {"memcore", "workers"}
