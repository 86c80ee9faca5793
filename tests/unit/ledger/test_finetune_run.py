"""What can be true of a run at once, and what cannot."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from support.ledger_records import StoppedClock

from memcore.ledger.finetune_runs import FineTuneRun
from memcore.models.finetune import STAGES, FineTuneStage

NOW = StoppedClock()()


def run(stage: FineTuneStage, **more: Any) -> FineTuneRun:
    fields = {"run_id": "r", "plan": {}, "stage": stage, "rung_at": NOW, "started_at": NOW, "updated_at": NOW, **more}
    return FineTuneRun(**fields)


@pytest.mark.parametrize(
    ("stage", "more", "field"),
    [
        (FineTuneStage.FAILED, {"completed_at": NOW}, "error"),
        (FineTuneStage.COMPLETE, {"completed_at": NOW, "error": "no"}, "error"),
        (FineTuneStage.TRAINING, {"error": "no"}, "error"),
        (FineTuneStage.TRAINING, {"completed_at": NOW}, "completed_at"),
        (FineTuneStage.COMPLETE, {}, "completed_at"),
        (FineTuneStage.CANCELLED, {}, "completed_at"),
        (FineTuneStage.IDLE, {}, "stage"),
        (FineTuneStage.TRAINING, {"progress": 1.1}, "progress"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(stage: FineTuneStage, more: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        run(stage, **more)


def test_what_follows_from_a_run() -> None:
    later = NOW + timedelta(seconds=90)
    failed = run(FineTuneStage.FAILED, error="no", completed_at=later, finished={STAGES[1]: {}, STAGES[0]: {"a": "b"}})
    assert failed.stages_completed == STAGES[:2]
    assert (failed.next_stage, failed.duration) == (FineTuneStage.TRAINING, timedelta(seconds=90))
    assert run(FineTuneStage.MINING_NEGATIVES, finished={STAGES[0]: {}}, progress=0.5).fraction == pytest.approx(0.3)
    assert run(FineTuneStage.COMPLETE, completed_at=later).fraction == 1.0
    assert FineTuneRun.model_validate(failed.model_dump(mode="json")) == failed
