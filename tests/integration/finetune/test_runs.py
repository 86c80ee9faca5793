"""A run from plan to checkpoint: its ends, a dead worker, and two workers at one stage."""

import itertools
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from support.fault_injection import AT_CALLS, Crash, Faults
from support.finetune_fixture import PLAN, SIZES, FineTuneFleet, report
from support.ledger_records import COMPANY
from support.present import present

from memcore.errors import MemoryConnectionError
from memcore.finetune.checkpoint import MANIFEST_FILE, delete_files, read_manifest
from memcore.finetune.evaluate import EvalReport
from memcore.finetune.execution.protocol import StageEnd, StageJob, StageOutcome
from memcore.finetune.service import REPORT_SECONDS, RETRY
from memcore.jobs import Deferred, Done, Skipped
from memcore.ledger.collections import Verdict
from memcore.models.finetune import STAGES, FineTunePlan, FineTuneStage

TRAINING = FineTuneStage.TRAINING


def test_a_plan_becomes_a_checkpoint_stage_by_stage(fleet: FineTuneFleet, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run_id = fleet.start()
    run = fleet.to_the_end(run_id)
    assert (run.reason, run.stage, run.stages_completed, run.holder) == (None, FineTuneStage.COMPLETE, STAGES, None)
    assert (fleet.stages.performed, fleet.gathered) == (list(STAGES), 1)
    (checkpoint,) = fleet.ledger.checkpoints.page(COMPANY)
    assert (checkpoint.run_id, checkpoint.verdict, checkpoint.doc_count) == (run_id, Verdict.PROMOTED, 12)
    assert checkpoint.size_bytes == sum(each.stat().st_size for each in Path(checkpoint.model_path).iterdir())
    # Agents' texts are gone, the checkpoint and its figures stay.
    assert sorted(each.name for each in (fleet.runs / run_id).iterdir()) == [
        "deploying-5", "evaluating-4", "training-3",
    ]  # fmt: skip
    events = [record.message for record in caplog.records if record.name.startswith("memcore.finetune")]
    assert events == [
        *["memory.fine_tune.stage_entered"] * 5, "memory.fine_tune.checkpoint_saved", "memory.fine_tune.completed",
    ]  # fmt: skip
    assert fleet.worker().run(run_id).outcome == Skipped(
        reason=f"memory.finetune.stage {run_id} is done and not free to be taken"
    )


@pytest.mark.parametrize(
    ("lead", "low", "verdict"),
    [(0.05, 0.0, Verdict.UNDECIDED), (-0.001, -0.02, Verdict.REJECTED), (0.05, 0.02, Verdict.PROMOTED)],
)
def test_a_checkpoint_is_kept_with_the_gates_verdict_and_what_its_training_took(
    fleet: FineTuneFleet, caplog: pytest.LogCaptureFixture, lead: float, low: float, verdict: Verdict
) -> None:
    caplog.set_level(logging.INFO)
    fleet.stages.report = report(lead, low)
    assert fleet.to_the_end(fleet.start()).stage is FineTuneStage.COMPLETE
    (checkpoint,) = fleet.ledger.checkpoints.page(COMPANY)
    assert checkpoint.verdict is verdict
    assert f"fused with words {lead:+.3f} [{low:+.3f}, +0.100]" in checkpoint.reason
    assert EvalReport.model_validate(checkpoint.report).sizes == SIZES
    word = {Verdict.PROMOTED: "saved"}.get(verdict, verdict.value)
    assert f"memory.fine_tune.checkpoint_{word}" in caplog.messages


@pytest.mark.parametrize(("wins", "other"), [("static", "transformer"), ("transformer", "static")])
def test_both_kinds_are_trained_and_the_better_one_is_the_runs_checkpoint(
    fleet: FineTuneFleet, wins: str, other: str
) -> None:
    fleet.stages.reports = {wins: report(0.05, 0.01), other: report(0.09, -0.01)}
    progress: list[float | None] = []
    fleet.stages.within = lambda job: progress.append(_progress_in(fleet, job))
    run_id = fleet.start(FineTunePlan())
    run = fleet.to_the_end(run_id)
    assert (run.reason, run.stage) == (None, FineTuneStage.COMPLETE)
    generating, mining, training, evaluating, deploying = STAGES
    assert fleet.stages.performed == [
        generating, mining, mining, training, training, evaluating, evaluating, deploying,
    ]  # fmt: skip
    # Half of each of two parts.
    assert progress == [0.5, *[0.25, 0.75] * 3, 0.5]
    (checkpoint,) = fleet.ledger.checkpoints.page(COMPANY)
    assert (checkpoint.kind, checkpoint.verdict) == (wins, Verdict.PROMOTED)
    assert checkpoint.reason.startswith(f"{wins}: it leads its base on")
    assert f"; {other} undecided: its lead is not told from chance" in checkpoint.reason
    assert read_manifest(Path(checkpoint.model_path)).kind == wins
    # The other's model is gone, and a deleted one leaves nothing.
    models = [each.parent.parent.name for each in (fleet.runs / run_id).rglob(MANIFEST_FILE)]
    assert models == [wins]
    assert delete_files(checkpoint)
    assert not Path(checkpoint.model_path).exists()


def _progress_in(fleet: FineTuneFleet, job: StageJob) -> float | None:
    fleet.clock.advance(timedelta(seconds=REPORT_SECONDS))
    job.cancelled()
    return fleet.row(job.run_id).progress


def test_a_run_of_two_kinds_that_loses_one_kinds_file_makes_both_again(fleet: FineTuneFleet) -> None:
    run_id, worker = fleet.start(FineTunePlan()), fleet.worker()
    for _ in range(3):
        assert worker.run(run_id).goes_on
    (triples,) = fleet.runs.glob(f"{run_id}/mining_negatives-*/transformer/*.jsonl")
    triples.unlink()
    assert fleet.to_the_end(run_id, worker).stage is FineTuneStage.COMPLETE
    assert fleet.stages.performed.count(FineTuneStage.MINING_NEGATIVES) == 4


@pytest.mark.parametrize("end", [StageEnd.FAILED, StageEnd.TIMED_OUT])
def test_a_stage_that_fails_ends_the_run_with_its_reason_and_a_resume_finishes_it(
    fleet: FineTuneFleet, caplog: pytest.LogCaptureFixture, end: StageEnd
) -> None:
    fleet.stages.ends[TRAINING] = StageOutcome(end=end, reason="training failed: No space left on device")
    run_id = fleet.start()
    run = fleet.to_the_end(run_id)
    assert (run.stage, run.reason) == (FineTuneStage.FAILED, "training failed: No space left on device")
    assert run.stages_completed == STAGES[:2]
    assert "memory.fine_tune.failed" in caplog.messages
    fleet.stages.ends.clear()
    fleet.ledger.finetune_runs.resume(COMPANY, run_id)
    assert fleet.to_the_end(run_id).stage is FineTuneStage.COMPLETE
    assert fleet.stages.performed == [*STAGES[:3], *STAGES[2:]]


def test_a_cancelled_run_ends_as_that_and_a_resume_finishes_it(
    fleet: FineTuneFleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def cancel(job: StageJob) -> None:
        if job.config.stage is TRAINING:
            asked = present(fleet.ledger.finetune_runs.cancel(COMPANY))
            assert (asked.stage, asked.holder) == (TRAINING, "process:3:7")
            fleet.clock.advance(timedelta(seconds=REPORT_SECONDS))

    fleet.stages.within = cancel
    run_id = fleet.start()
    run = fleet.to_the_end(run_id)
    assert (run.stage, run.reason, run.holder) == (FineTuneStage.CANCELLED, "training was cancelled", None)
    assert "memory.fine_tune.cancelled" in caplog.messages
    fleet.stages.within = lambda _job: None
    fleet.ledger.finetune_runs.resume(COMPANY, run_id)
    assert fleet.to_the_end(run_id).stage is FineTuneStage.COMPLETE


def test_the_threads_of_a_plan_are_those_of_every_stage_that_computes(fleet: FineTuneFleet) -> None:
    reports: dict[str, object] = {}
    fleet.stages.within = lambda job: reports.update({job.config.stage: getattr(job.config, "threads", None)})
    fleet.to_the_end(fleet.start(PLAN.model_copy(update={"threads": 3})))
    assert reports == {**dict.fromkeys(STAGES[:-1], 3), FineTuneStage.DEPLOYING: None}
    fleet.to_the_end(fleet.start())
    assert reports[TRAINING] == 1


def test_the_progress_of_a_stage_is_told_with_each_sign_of_life(fleet: FineTuneFleet) -> None:
    reports: list[tuple[str, float | None]] = []

    def passes(_job: StageJob) -> None:
        fleet.clock.advance(timedelta(seconds=REPORT_SECONDS))

    fleet.stages.within = passes
    fleet.worker().run(fleet.start(), on_progress=lambda stage, fraction: reports.append((stage, fraction)))
    assert reports == [("generating_data", 0.5)]


def test_a_run_whose_worker_died_is_cancelled_by_the_next_one_after_what_runs_is_ended(fleet: FineTuneFleet) -> None:
    run_id = fleet.start()
    fleet.stages.within = crash
    with pytest.raises(Crash):
        fleet.worker().run(run_id)
    asked = present(fleet.ledger.finetune_runs.cancel(COMPANY))
    assert not asked.stage.is_end
    fleet.later()
    fleet.to_the_end(run_id)
    assert (fleet.row(run_id).stage, fleet.reaped) == (FineTuneStage.CANCELLED, ["process:1:7"])


@pytest.mark.parametrize("is_after", AT_CALLS)
def test_a_worker_that_dies_between_any_two_steps_leaves_a_run_that_another_finishes(
    fleet: FineTuneFleet, is_after: bool
) -> None:
    counting = Faults()
    fleet.to_the_end(fleet.start(), fleet.worker(faults=counting))
    names = counting.calls
    assert "finetune_runs.complete" in names
    assert len(names) > 20
    for at in range(len(names)):
        fleet.stages.performed.clear()
        run_id = fleet.start()
        with pytest.raises(Crash):
            fleet.to_the_end(run_id, fleet.worker(faults=Faults(at, is_after=is_after)))
        fleet.later()
        run = fleet.to_the_end(run_id)
        assert run.stage is FineTuneStage.COMPLETE, names[at]
        # At most the stage that was in work is done twice.
        assert [stage for stage, _ in itertools.groupby(fleet.stages.performed)] == list(STAGES), names[at]
        assert len(fleet.stages.performed) <= len(STAGES) + 1, names[at]
        # Its message comes again, and takes away the texts that it may have left.
        fleet.worker().run(run_id)
        assert not list((fleet.runs / run_id).glob("generating*"))
        assert sum(each.run_id == run_id for each in fleet.ledger.checkpoints.page(COMPANY)) == 1


@pytest.mark.parametrize(("host", "ended"), [("here", ["process:1:7"]), ("elsewhere", [])])
def test_what_a_dead_worker_left_running_is_ended_first_on_its_own_machine(
    fleet: FineTuneFleet, host: str, ended: list[str]
) -> None:
    run_id = fleet.start()
    fleet.stages.within = crash
    with pytest.raises(Crash):
        fleet.worker().run(run_id)
    assert fleet.row(run_id).holder == "process:1:7"
    fleet.later()
    fleet.stages.within = lambda _job: None
    fleet.worker(host=host).run(run_id)
    assert fleet.reaped == ended
    assert fleet.row(run_id).stages_completed == STAGES[:1]


def test_two_workers_are_never_at_one_stage_and_the_late_one_changes_nothing(fleet: FineTuneFleet) -> None:
    run_id = fleet.start()
    late, other = fleet.worker(), fleet.worker()

    def overtaken(_job: StageJob) -> None:
        fleet.stages.within = lambda _job: None
        # While its lease lasts nobody else gets in.
        assert isinstance(other.run(run_id).outcome, Skipped)
        fleet.later()
        assert other.run(run_id).goes_on

    fleet.stages.within = overtaken
    step = late.run(run_id)
    assert isinstance(step.outcome, Skipped)
    assert "belongs to another worker" in step.outcome.reason
    run = fleet.row(run_id)
    assert list(run.finished) == [STAGES[0]]
    assert {Path(place).parts[0] for place in run.finished[STAGES[0]]} == {"generating_data-2"}
    assert fleet.to_the_end(run_id).stage is FineTuneStage.COMPLETE


def test_files_that_are_gone_or_changed_are_made_again(fleet: FineTuneFleet) -> None:
    run_id = fleet.start()
    for _ in range(3):
        fleet.worker().run(run_id)
    triples = next((fleet.runs / run_id).glob("mining_negatives-*/*"))
    triples.write_text("something else", "utf-8")
    assert fleet.to_the_end(run_id).stage is FineTuneStage.COMPLETE
    assert fleet.stages.performed == [*STAGES[:3], *STAGES[1:]]


def test_the_texts_of_a_failed_run_go_when_the_next_begins_and_its_resume_makes_them_again(
    fleet: FineTuneFleet,
) -> None:
    fleet.stages.ends[TRAINING] = StageOutcome(end=StageEnd.FAILED, reason="training failed")
    failed = fleet.start()
    fleet.to_the_end(failed)
    assert len(list((fleet.runs / failed).iterdir())) == 3
    fleet.stages.ends.clear()
    assert fleet.to_the_end(fleet.start()).stage is FineTuneStage.COMPLETE
    assert [each.name for each in (fleet.runs / failed).iterdir()] == ["training-3"]
    fleet.ledger.finetune_runs.resume(COMPANY, failed)
    assert fleet.to_the_end(failed).stage is FineTuneStage.COMPLETE
    assert fleet.ledger.checkpoints.count(COMPANY) == 2


def test_a_stage_that_kills_every_worker_fails_the_run(fleet: FineTuneFleet) -> None:
    run_id = fleet.start()
    fleet.stages.within = crash
    for _ in range(RETRY.attempts or 0):
        with pytest.raises(Crash):
            fleet.worker().run(run_id)
        fleet.later()
    run = fleet.to_the_end(run_id)
    reason = "generating_data failed: was attempted 8 times without reaching its end"
    assert (run.stage, run.reason, run.holder) == (FineTuneStage.FAILED, reason, None)
    assert len(fleet.reaped) == RETRY.attempts, "what the last one left running is ended, too"


def test_trouble_that_passes_leaves_the_run_to_the_next_job(fleet: FineTuneFleet) -> None:
    run_id = fleet.start()
    fleet.troubles = [MemoryConnectionError("the store is away")]
    assert fleet.worker().run(run_id).outcome == Deferred(reason="MemoryConnectionError")
    run = fleet.row(run_id)
    assert (run.stage, run.token, run.attempt) == (STAGES[0], None, 1)
    assert fleet.to_the_end(run_id).stage is FineTuneStage.COMPLETE


def test_a_disk_that_is_full_while_texts_are_gathered_ends_the_run_with_that(fleet: FineTuneFleet) -> None:
    run_id = fleet.start()
    fleet.troubles = [OSError(28, "No space left on device")]
    run = fleet.to_the_end(run_id)
    assert (run.stage, run.reason) == (FineTuneStage.FAILED, "generating_data failed: No space left on device")


def test_a_paused_company_waits(fleet: FineTuneFleet) -> None:
    run_id = fleet.start()
    fleet.ledger.companies.pause(COMPANY)
    assert fleet.worker().run(run_id).outcome == Deferred(reason="maintenance is paused for all agents")
    assert (fleet.row(run_id).state, fleet.row(run_id).attempt, fleet.stages.performed) == ("waiting", 0, [])
    fleet.ledger.companies.resume(COMPANY)
    assert fleet.worker().run(run_id).outcome == Done(facts={"files": 3})


def crash(_job: StageJob) -> None:
    raise Crash
