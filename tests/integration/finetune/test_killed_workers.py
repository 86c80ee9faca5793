"""Workers killed with SIGKILL during a stage: its process group is ended, and the run goes on."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.fake_runners import fake_python
from support.finetune_fixture import PLAN, Stages
from support.ledger_records import COMPANY
from support.present import present
from support.repository import ROOT
from support.thorough import also_thorough

from memcore.clock import utc_now
from memcore.config.urls import LedgerUrls
from memcore.finetune.execution.process import ProcessExecutor, end_by_name
from memcore.finetune.execution.protocol import StageExecutor, StageJob, StageOutcome
from memcore.finetune.service import FineTuneService, hostname
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import STAGES, FineTuneStage


@contextmanager
def worker(folder: Path, python: str, run_id: str) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "finetune_worker.py"), str(folder), str(folder / "runs"), python, run_id],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def after_the_lease(ledger: Ledger, folder: Path, executor: StageExecutor) -> FineTuneService:
    return FineTuneService(
        ledger,
        executor,
        gather=lambda _plan, _path, _renew_interval: None,
        reap=end_by_name,
        company=COMPANY,
        folder=folder / "runs",
        host=hostname(),
        timeout_seconds=60.0,
        clock=lambda: utc_now() + timedelta(minutes=2),
    )


def until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("stage", [STAGES[0], *also_thorough(*STAGES[1:-1]), STAGES[-1]])
def test_a_killed_workers_stage_is_ended_and_done_by_another(
    sqlite_ledger: LedgerUrls, tmp_path: Path, stage: FineTuneStage
) -> None:
    here, later = Ledger.open(sqlite_ledger), Ledger.open(sqlite_ledger, clock=lambda: utc_now() + timedelta(minutes=2))
    run_id = here.finetune_runs.start(COMPANY, PLAN.model_dump(mode="json")).run_id
    stages = Stages()
    other = after_the_lease(later, tmp_path, stages)

    def row() -> FineTuneRun:
        return present(here.finetune_runs.get(COMPANY, run_id))

    for _ in range(STAGES.index(stage)):
        other.run(run_id)
    # The earlier stages' jobs were of the other's time: here nothing is in hand.
    with worker(tmp_path, fake_python(tmp_path, "heeds_no_signal"), run_id) as process:
        until(lambda: row().holder)
        held = row()
        assert (held.stage, held.host) == (stage, hostname())
        process.kill()
        process.wait()
    group = int(str(held.holder).split(":")[1])
    assert not is_gone(group)

    assert other.run(run_id).goes_on is (stage is not STAGES[-1])
    until(lambda: is_gone(group))
    while not row().stage.is_end:
        other.run(run_id)
    assert (row().stage, stages.performed) == (FineTuneStage.COMPLETE, list(STAGES))
    here.close()
    later.close()


def test_a_run_that_a_person_cancels_leaves_no_process(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    ledger = Ledger.open(sqlite_ledger)
    run_id = ledger.finetune_runs.start(COMPANY, PLAN.model_dump(mode="json")).run_id
    executor = ProcessExecutor(tmp_path / "scratch", python=fake_python(tmp_path, "heeds_no_signal"), grace=0.1)
    held: list[int] = []

    class Cancelling:
        def run(self, job: StageJob) -> StageOutcome:
            def named(name: str) -> None:
                job.born(name)
                held.append(int(name.split(":")[1]))
                ledger.finetune_runs.cancel(COMPANY)

            return executor.run(replace(job, born=named))

    after_the_lease(ledger, tmp_path, Cancelling()).run(run_id)
    run = present(ledger.finetune_runs.get(COMPANY, run_id))
    assert (run.stage, run.reason, run.holder) == (
        FineTuneStage.CANCELLED, "generating_data was cancelled", None,
    )  # fmt: skip
    assert is_gone(held[0])
    ledger.close()
