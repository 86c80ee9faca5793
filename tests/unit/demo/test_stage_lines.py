"""How far a run is, as lines: each quarter of a stage once."""

from datetime import UTC, datetime

import pytest

from memcore.ledger.finetune_runs import FineTuneRun
from memcore.models.finetune import FineTuneStage
from ops.cli.maintenance.finetune import run_bars

NOW = datetime(2026, 5, 4, tzinfo=UTC)


def run(progress: float | None, *finished: FineTuneStage) -> FineTuneRun:
    return FineTuneRun(
        run_id="r", plan={}, progress=progress, finished={each: {} for each in finished}, started_at=NOW, updated_at=NOW
    )


def test_each_quarter_is_told_once_and_a_finished_stage_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with run_bars(is_silent=False) as seen:
        for progress in (None, 0.1, 0.3, 0.3, 0.74):
            seen(run(progress))
        seen(run(0.0, FineTuneStage.GENERATING_DATA))
    assert capsys.readouterr().err.splitlines() == [
        "generating_data: 25%", "generating_data: 50%", "generating_data: 100%"
    ]  # fmt: skip


def test_whoever_asked_for_json_sees_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    for is_silent in (True, False):
        with run_bars(is_silent=is_silent) as seen:
            seen(run(0.5))
        assert capsys.readouterr().err == ("" if is_silent else "generating_data: 50%\n")
