"""Broken runners through the whole job: the row's state, the reason, and that nothing is left running."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fake_runners import fake_python
from support.finetune_fixture import HOST, PLAN, FineTuneFleet, Stages
from support.job_contexts import ScriptedContext
from support.ledger_records import COMPANY
from support.stage_executors import is_gone

from memcore.finetune.execution.process import ProcessExecutor, end_by_name
from memcore.finetune.execution.protocol import StageEnd, StageJob, StageOutcome
from memcore.finetune.markers import LogLine, RunnerEvent
from memcore.finetune.service import REPORT_SECONDS, FineTuneService
from memcore.jobs import FineTunePayload
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.models.finetune import STAGES, FineTuneStage
from tasks.learn import finetune
from workers.celery_task import perform

TRAINING = FineTuneStage.TRAINING

#: The runner, what it ends as, and the sentence that stands in the ledger; None for a run that goes on.
BROKEN: list[tuple[str, FineTuneStage, str | None]] = [
    ("fails", FineTuneStage.FAILED, r"training failed: No space left on device"),
    ("killed", FineTuneStage.FAILED, r"training was ended by signal 9"),
    ("no_reason", FineTuneStage.FAILED, r"training ended with code 7 and gave no reason"),
    ("silent", FineTuneStage.FAILED, r"training ended without saying that it is complete"),
    ("cut_marker", FineTuneStage.FAILED, r"training ended without saying that it is complete"),
    ("wrong_stage", FineTuneStage.FAILED, r"training ended without saying that it is complete"),
    ("complete_and_fails", FineTuneStage.FAILED, r"training ended with code 1 and gave no reason"),
    ("complete", FineTuneStage.FAILED, r"training left no memtend\.json"),
    ("broken_config", FineTuneStage.FAILED, r"config: \S+ is no JSON"),
    ("unknown_stage", FineTuneStage.FAILED, r"stage: must be one of generating_data, .*"),
    ("waits_for_ever", FineTuneStage.FAILED, r"training took longer than 2 seconds"),
    ("waits_for_ever cancelled", FineTuneStage.CANCELLED, r"training was cancelled"),
    ("heeds_no_signal cancelled", FineTuneStage.CANCELLED, r"training was cancelled"),
    ("not_utf8 leaves", FineTuneStage.EVALUATING, None),
    ("ten_megabytes leaves", FineTuneStage.EVALUATING, None),
    ("ten_megabytes_of_errors leaves", FineTuneStage.EVALUATING, None),
    ("child_keeps_output leaves", FineTuneStage.EVALUATING, None),
]


@dataclass
class Broken:
    """Runs the training with a runner that breaks, and the other stages as they should be.

    Attributes:
        leaves: whether the training's files are there all the same.
        cancels: called once the runner speaks.
        pids: what has run.
    """

    fleet: FineTuneFleet
    processes: ProcessExecutor
    leaves: bool
    cancels: Callable[[], object] | None
    pids: list[int] = field(default_factory=list)

    def run(self, job: StageJob) -> StageOutcome:
        if job.config.stage is not TRAINING:
            return self.fleet.stages.run(job)

        def named(name: str) -> None:
            job.born(name)
            self.pids.append(int(name.split(":")[1]))

        def hear(runner_event: RunnerEvent) -> None:
            job.on_event(runner_event)
            if isinstance(runner_event, LogLine) and runner_event.text.startswith("CHILD "):
                self.pids.append(int(runner_event.text.split()[1]))
            if self.cancels is not None:
                self.cancels()

        def asked() -> bool:
            self.fleet.clock.advance(timedelta(seconds=REPORT_SECONDS))
            return job.cancelled()

        outcome = self.processes.run(replace(job, on_event=hear, cancelled=asked, born=named))
        if self.leaves and outcome.end is StageEnd.COMPLETE:
            Stages()._leave(job.config)
        return outcome


@pytest.mark.parametrize(("runner", "stage", "reason"), BROKEN, ids=[each[0] for each in BROKEN])
def test_a_runner_that_breaks_is_told_of_leaves_nothing_running_and_a_resume_finishes_the_run(
    fleet: FineTuneFleet, tmp_path: Path, runner: str, stage: FineTuneStage, reason: str | None
) -> None:
    name, _, manner = runner.partition(" ")
    runs = fleet.ledger.finetune_runs
    broken = Broken(
        fleet,
        ProcessExecutor(tmp_path / "scratch", python=fake_python(tmp_path, name), grace=0.2),
        leaves=manner == "leaves",
        cancels=(lambda: runs.cancel(COMPANY)) if manner == "cancelled" else None,
    )
    job_context = ScriptedContext(ledger=fleet.ledger, company=COMPANY, clock=fleet.clock)
    job_context.services[FineTuneService] = FineTuneService(
        fleet.ledger,
        broken,
        gather=fleet._gather,
        reap=end_by_name,
        company=COMPANY,
        folder=fleet.runs,
        host=HOST,
        timeout_seconds=2.0 if manner == "" and "waits" in name else 60.0,
        clock=fleet.clock,
    )
    run_id = fleet.start(PLAN)
    message = FineTunePayload(company=COMPANY, run_id=run_id).model_dump_json()

    def job() -> FineTuneRun:
        perform(finetune, message, job_context)
        return fleet.row(run_id)

    for _ in STAGES[: STAGES.index(TRAINING)]:
        job()
    run = job()
    assert (run.stage, run.holder, run.token) == (stage, None, None)
    assert re.fullmatch(reason, run.reason or "") if reason else run.reason is None
    assert broken.pids
    assert all(map(is_gone, broken.pids))
    assert len(job_context.dispatcher.items) == (3 if reason is None else 2)

    job_context.services[FineTuneService] = fleet.worker()
    if reason is not None:
        assert job() == run
        runs.resume(COMPANY, run_id)
    for _ in STAGES:
        job()
    assert (fleet.row(run_id).stage, fleet.row(run_id).stages_completed) == (FineTuneStage.COMPLETE, STAGES)
    performed: list[Any] = [*STAGES] if reason is not None else [each for each in STAGES if each is not TRAINING]
    assert fleet.stages.performed == performed
