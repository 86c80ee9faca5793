"""The rows of fine-tune runs: one active, one worker at a stage, and every end with its reason."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.checkpoint_rows import checkpoint_row
from support.ledger_records import COMPANY, StoppedClock
from support.present import present

from memcore.errors import (
    FineTuneRunActiveError,
    FineTuneRunNotResumableError,
    LeaseLostError,
    MemoryInputError,
    MemoryNotFoundError,
)
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import STAGES, FineTuneStage

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE = timedelta(seconds=45)
PLAN = {"source_dir": "/docs", "epochs": 2}


def claimed(ledger: Ledger, run_id: str) -> tuple[FineTuneRun, str]:
    run = present(ledger.finetune_runs.claim(COMPANY, run_id, lease=LEASE))
    return run, present(run.token)


def test_one_run_of_a_company_is_active(ledger: Ledger) -> None:
    runs = ledger.finetune_runs
    run = runs.start(COMPANY, PLAN)
    with pytest.raises(FineTuneRunActiveError, match="a run has not ended"):
        runs.start(COMPANY, PLAN)
    assert runs.start("globex", PLAN).run_id != run.run_id
    assert runs.active(COMPANY) == runs.get(COMPANY, run.run_id) == run
    assert (run.stage, run.plan, run.stages_completed) == (FineTuneStage.GENERATING_DATA, PLAN, ())
    assert runs.page(COMPANY) == ((run,), 1)


def test_a_stage_is_one_workers_until_its_lease_ends(ledger: Ledger, clock: StoppedClock) -> None:
    runs = ledger.finetune_runs
    run_id = runs.start(COMPANY, PLAN).run_id
    first, token = claimed(ledger, run_id)
    assert runs.claim(COMPANY, run_id, lease=LEASE) is None
    runs.record_holder(COMPANY, run_id, token, holder="process:7:1", host="here")
    clock.advance(LEASE - timedelta(seconds=1))
    assert runs.claim(COMPANY, run_id, lease=LEASE) is None
    assert runs.report(COMPANY, run_id, token, progress=0.25).progress == 0.25
    clock.advance(timedelta(seconds=1))
    second, fresh = claimed(ledger, run_id)
    # Whoever takes it over learns what may still run.
    assert (second.holder, second.host, second.progress) == ("process:7:1", "here", None)
    assert (first.claims, second.claims, second.attempt) == (1, 2, 2)
    late: list[Callable[[], object]] = [
        lambda: runs.renew(COMPANY, run_id, token, lease=LEASE),
        lambda: runs.record_holder(COMPANY, run_id, token, holder=None, host=None),
        lambda: runs.finish_stage(COMPANY, run_id, token, stage=STAGES[0], files={}),
        lambda: runs.report(COMPANY, run_id, token),
        lambda: runs.end(COMPANY, run_id, token, "fail", reason="no"),
        lambda: runs.release(COMPANY, run_id, token),
        lambda: runs.rewind(COMPANY, run_id, token, finished={}),
        lambda: runs.complete(COMPANY, run_id, token, checkpoint=checkpoint_row(run_id, company=COMPANY, at=clock())),
    ]
    for lost in late:
        with pytest.raises(LeaseLostError, match="is leased and no longer held"):
            lost()
    assert ledger.checkpoints.count(COMPANY) == 0
    assert runs.report(COMPANY, run_id, fresh).token == fresh


def test_of_many_workers_at_once_one_gets_the_stage(ledger: Ledger) -> None:
    run_id = ledger.finetune_runs.start(COMPANY, PLAN).run_id
    together = threading.Barrier(6)

    def claim(_number: int) -> FineTuneRun | None:
        together.wait(30)
        return ledger.finetune_runs.claim(COMPANY, run_id, lease=LEASE)

    with ThreadPoolExecutor(6) as pool:
        found = [run for run in pool.map(claim, range(6)) if run is not None]
    assert [run.claims for run in found] == [1]


def test_of_many_starts_at_once_one_is_a_run(ledger: Ledger) -> None:
    together = threading.Barrier(6)

    def start(_number: int) -> str | None:
        together.wait(30)
        try:
            return ledger.finetune_runs.start(COMPANY, PLAN).run_id
        except FineTuneRunActiveError:
            return None

    with ThreadPoolExecutor(6) as pool:
        started = [run_id for run_id in pool.map(start, range(6)) if run_id is not None]
    assert len(started) == 1
    assert ledger.finetune_runs.page(COMPANY)[1] == 1


def test_a_finished_stage_keeps_its_files_and_frees_the_next(ledger: Ledger) -> None:
    runs = ledger.finetune_runs
    run_id = runs.start(COMPANY, PLAN).run_id
    for number, stage in enumerate(STAGES[:-1], start=1):
        run, token = claimed(ledger, run_id)
        assert (run.stage, run.attempt, run.claims) == (stage, 1, number)
        run = runs.finish_stage(COMPANY, run_id, token, stage=stage, files={f"{stage}/file": "hash"})
        assert (run.token, run.holder, run.finished[stage]) == (None, None, {f"{stage}/file": "hash"})
        assert run.fraction == pytest.approx(number / 5)
    run, token = claimed(ledger, run_id)
    assert run.stages_completed == STAGES[:-1]
    with pytest.raises(MemoryInputError, match="stage: deploying has no stage behind it"):
        runs.finish_stage(COMPANY, run_id, token, stage=FineTuneStage.DEPLOYING, files={})


def test_a_rewound_run_goes_on_behind_the_first_gap(ledger: Ledger) -> None:
    runs = ledger.finetune_runs
    run_id = runs.start(COMPANY, PLAN).run_id
    _, token = claimed(ledger, run_id)
    runs.finish_stage(COMPANY, run_id, token, stage=STAGES[0], files={"a": "1"})
    _, token = claimed(ledger, run_id)
    assert runs.rewind(COMPANY, run_id, token, finished={}).stage is STAGES[0]
    run = runs.rewind(COMPANY, run_id, token, finished={STAGES[0]: {"a": "1"}})
    assert (run.stage, run.finished) == (STAGES[1], {STAGES[0]: {"a": "1"}})


def test_a_complete_run_and_its_checkpoint_are_written_together(ledger: Ledger, clock: StoppedClock) -> None:
    runs = ledger.finetune_runs
    run_id = runs.start(COMPANY, PLAN).run_id
    _, token = claimed(ledger, run_id)
    row = checkpoint_row(run_id, company=COMPANY, at=clock())
    clock.advance(timedelta(seconds=9))
    run = runs.complete(COMPANY, run_id, token, checkpoint=row)
    assert (run.stage, run.reason, run.token, run.duration) == (
        FineTuneStage.COMPLETE,
        None,
        None,
        clock() - run.started_at,
    )
    assert ledger.checkpoints.get(COMPANY, row.checkpoint_id) == row
    assert ledger.checkpoints.page(COMPANY) == (row,)
    assert ledger.checkpoints.get("globex", row.checkpoint_id) is None
    with pytest.raises(FineTuneRunNotResumableError, match="the run is complete"):
        runs.resume(COMPANY, run_id)
    assert runs.claim(COMPANY, run_id, lease=LEASE) is None


def test_a_failed_run_says_why_and_is_resumed_behind_its_stages(ledger: Ledger) -> None:
    runs = ledger.finetune_runs
    run_id = runs.start(COMPANY, PLAN).run_id
    _, token = claimed(ledger, run_id)
    runs.finish_stage(COMPANY, run_id, token, stage=STAGES[0], files={"a": "1"})
    _, token = claimed(ledger, run_id)
    failed = runs.end(COMPANY, run_id, token, "fail", reason="No space left on device")
    assert (failed.stage, failed.reason) == (FineTuneStage.FAILED, "No space left on device")
    assert failed.finished_at is not None
    assert runs.active(COMPANY) is None
    resumed = runs.resume(COMPANY, run_id)
    assert (resumed.stage, resumed.reason, resumed.finished_at, resumed.attempt) == (STAGES[1], None, None, 0)
    assert resumed.finished == {STAGES[0]: {"a": "1"}}
    with pytest.raises(FineTuneRunNotResumableError, match="the run is mining_negatives"):
        runs.resume(COMPANY, run_id)
    with pytest.raises(MemoryNotFoundError, match="run_id"):
        runs.resume(COMPANY, "another")


def test_a_run_is_not_resumed_beside_an_active_one(ledger: Ledger) -> None:
    runs = ledger.finetune_runs
    first = runs.start(COMPANY, PLAN).run_id
    assert runs.cancel(COMPANY) is not None
    runs.start(COMPANY, PLAN)
    with pytest.raises(FineTuneRunActiveError, match="another run has not ended"):
        runs.resume(COMPANY, first)


def test_a_cancelled_run_ends_at_once_when_nobody_has_it_and_else_by_its_worker(ledger: Ledger) -> None:
    runs = ledger.finetune_runs
    assert runs.cancel(COMPANY) is None
    run_id = runs.start(COMPANY, PLAN).run_id
    ended = present(runs.cancel(COMPANY))
    assert (ended.stage, ended.reason) == (FineTuneStage.CANCELLED, "a person cancelled the run")
    resumed = runs.resume(COMPANY, run_id)
    assert resumed.cancel_requested_at is None
    _, token = claimed(ledger, run_id)
    asked = present(runs.cancel(COMPANY))
    assert (asked.stage, asked.finished_at) == (STAGES[0], None)
    assert runs.report(COMPANY, run_id, token).cancel_requested_at is not None
    ended = runs.end(COMPANY, run_id, token, "cancel", reason="a person cancelled the run")
    assert ended.stage is FineTuneStage.CANCELLED
