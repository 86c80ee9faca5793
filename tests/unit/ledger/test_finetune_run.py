"""What follows from a run's row and its item."""

from datetime import timedelta
from typing import Any

import pytest
from support.ledger_records import StoppedClock

from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.work_items import WorkState
from memcore.models.finetune import STAGES, FineTuneStage

NOW = StoppedClock()()


def run(state: WorkState, **more: Any) -> FineTuneRun:
    return FineTuneRun(run_id="r", plan={}, state=state, started_at=NOW, updated_at=NOW, **more)


@pytest.mark.parametrize(
    ("state", "finished", "stage"),
    [
        (WorkState.AVAILABLE, (), STAGES[0]),
        (WorkState.LEASED, STAGES[:2], FineTuneStage.TRAINING),
        (WorkState.LEASED, (STAGES[0], STAGES[2]), STAGES[1]),
        (WorkState.LEASED, STAGES, STAGES[-1]),
        (WorkState.DONE, STAGES, FineTuneStage.COMPLETE),
        (WorkState.FAILED, STAGES[:1], FineTuneStage.FAILED),
        (WorkState.DISMISSED, (), FineTuneStage.CANCELLED),
    ],
)
def test_the_stage_follows_from_what_is_done_and_how_the_run_ended(
    state: WorkState, finished: tuple[FineTuneStage, ...], stage: FineTuneStage
) -> None:
    assert run(state, finished={each: {} for each in finished}).stage is stage


def test_what_follows_from_a_run() -> None:
    failed = run(
        WorkState.FAILED,
        reason="no",
        finished_at=NOW + timedelta(seconds=90),
        finished={STAGES[1]: {}, STAGES[0]: {"a": "b"}},
    )
    assert (failed.stages_completed, failed.duration) == (STAGES[:2], timedelta(seconds=90))
    assert run(WorkState.LEASED, finished={STAGES[0]: {}}, progress=0.5).fraction == pytest.approx(0.3)
    assert run(WorkState.DONE).fraction == 1.0
    assert FineTuneRun.model_validate(failed.model_dump(mode="json")) == failed
