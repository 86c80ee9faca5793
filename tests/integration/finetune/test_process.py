"""Stages in a process of their own: every end is told, and nothing of them is left running."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_runners import fake_python
from repository import ROOT

from memcore.finetune.execution.process import ProcessExecutor, end_by_name, name_of
from memcore.finetune.execution.protocol import StageEnd, StageJob, StageOutcome
from memcore.finetune.markers import LogLine, Progress, Said
from memcore.finetune.parent import PARENT
from memcore.finetune.runner_config import TrainingConfig
from memcore.finetune.stage import FineTuneStage

CONFIG = TrainingConfig(stage=FineTuneStage.TRAINING, output_dir="out", training_data_path="triples.jsonl")


class Stage:
    """One run of a runner that misbehaves."""

    def __init__(self, folder: Path, name: str, *, seconds: float = 60.0, grace: float = 10.0) -> None:
        self.said: list[Said] = []
        self.names: list[str] = []
        self._executor = ProcessExecutor(folder / "scratch", python=fake_python(folder, name), grace=grace)
        self._job = StageJob(run_id="run", config=CONFIG, timeout_seconds=seconds)

    def run(self, cancelled: Callable[[], bool] = lambda: False) -> StageOutcome:
        return self._executor.run(self._job, told=self.said.append, cancelled=cancelled, born=self.names.append)

    @property
    def child(self) -> int:
        """The process that the runner has started."""
        lines = [said.text for said in self.said if isinstance(said, LogLine)]
        return int(next(line for line in lines if line.startswith("CHILD ")).split()[1])


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or waits to be buried by a parent that is not ours."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_complete_stage_says_so_and_its_progress_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "complete")
    outcome = stage.run()
    assert (outcome.end, outcome.reason, outcome.exit_code) == (StageEnd.COMPLETE, None, 0)
    assert [said.fraction for said in stage.said if isinstance(said, Progress)] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fails", "training failed: No space left on device"),
        ("silent", "training ended without saying that it is complete"),
        ("wrong_stage", "training ended without saying that it is complete"),
        ("no_reason", "training ended with code 7 and gave no reason"),
        ("killed", "training was ended by signal 9"),
        ("complete_and_fails", "training ended with code 1 and gave no reason"),
        ("cut_marker", "training ended without saying that it is complete"),
    ],
)
def test_a_stage_that_fails_is_told_in_one_sentence(tmp_path: Path, name: str, reason: str) -> None:
    outcome = Stage(tmp_path, name).run()
    assert (outcome.end, outcome.reason) == (StageEnd.FAILED, reason)


@pytest.mark.parametrize("name", ["not_utf8", "ten_megabytes", "ten_megabytes_of_errors"])
def test_whatever_else_a_runner_says_it_is_complete_when_it_says_that(tmp_path: Path, name: str) -> None:
    assert Stage(tmp_path, name).run().end is StageEnd.COMPLETE


def test_a_child_that_keeps_the_output_open_is_not_waited_for_and_not_left(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "child_keeps_output")
    assert stage.run().end is StageEnd.COMPLETE
    assert is_gone(stage.child)


def test_a_cancelled_stage_is_asked_to_stop(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "waits_for_ever")
    outcome = stage.run(cancelled=lambda: bool(stage.said))
    assert (outcome.end, outcome.reason) == (StageEnd.CANCELLED, "training was cancelled")


def test_a_cancelled_stage_that_heeds_no_signal_is_killed_with_its_children(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "heeds_no_signal", grace=0.1)
    assert stage.run(cancelled=lambda: bool(stage.said)).end is StageEnd.CANCELLED
    assert is_gone(stage.child)


def test_a_stage_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    outcome = Stage(tmp_path, "waits_for_ever", seconds=0.3).run()
    assert (outcome.end, outcome.reason) == (StageEnd.TIMED_OUT, "training took longer than 0.3 seconds")


def test_who_listens_and_fails_leaves_nothing_running(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "heeds_no_signal")

    def fail() -> bool:
        if any(isinstance(said, LogLine) for said in stage.said):
            raise RuntimeError
        return False

    with pytest.raises(RuntimeError):
        stage.run(cancelled=fail)
    assert is_gone(stage.child)
    assert is_gone(int(stage.names[0].split(":")[1]))


def test_a_process_group_is_ended_by_its_name_and_another_of_its_number_is_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "waits_for_ever")
    ended: list[bool] = []

    def end() -> bool:
        if stage.said and not ended:
            name = stage.names[0]
            ended.append(end_by_name(f"{name}0"))
            ended.append(end_by_name(name))
        return False

    outcome = stage.run(cancelled=end)
    assert ended == [False, True]
    assert outcome.reason == "training was ended by signal 9"
    assert not end_by_name(stage.names[0])
    assert not end_by_name("container:abc")
    assert name_of(os.getpid()).startswith(f"process:{os.getpid()}:")


def test_a_runner_whose_worker_is_gone_ends_with_all_that_it_started() -> None:
    runner = (
        "import os, subprocess, sys, time\n"
        "from memcore.finetune.parent import end_with_parent\n"
        "end_with_parent(os.environ)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(os.getpid(), child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    worker = (
        "import os, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {runner!r}], start_new_session=True,\n"
        f"    env={{**os.environ, {PARENT!r}: str(os.getpid())}}).wait()\n"
    )
    started = subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert started.stdout is not None
    pids = [int(pid) for pid in started.stdout.readline().split()]
    started.kill()
    started.wait()
    assert len(pids) == 2
    assert all(map(is_gone, pids))
    started.stdout.close()
