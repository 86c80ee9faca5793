"""Stages in processes and in containers: every end is reported, and nothing is left running."""

import os
from pathlib import Path

import pytest
from support.stage_executors import FINE_TUNE_IMAGE, REAL, InEngine, Place, Stage

from memcore.finetune.documents import Pair, read_lines
from memcore.finetune.execution.factory import end_by_name
from memcore.finetune.execution.protocol import StageEnd
from memcore.finetune.markers import LogLine, Progress
from memcore.finetune.runner_config import GeneratingConfig
from memcore.models.finetune import FineTuneStage


def test_a_complete_stage_says_so_and_its_progress_is_told(place: Place, tmp_path: Path) -> None:
    stage = Stage(place, tmp_path, "complete")
    outcome = stage.run()
    assert (outcome.end, outcome.reason) == (StageEnd.COMPLETE, None)
    assert [said.fraction for said in stage.said if isinstance(said, Progress)] == [0.5, 1.0]
    assert len(stage.names) == 1
    assert place.is_clean(stage)


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
def test_a_stage_that_fails_is_told_in_one_sentence(place: Place, tmp_path: Path, name: str, reason: str) -> None:
    stage = Stage(place, tmp_path, name)
    outcome = stage.run()
    assert (outcome.end, outcome.reason) == (StageEnd.FAILED, reason)
    assert place.is_clean(stage)


@pytest.mark.parametrize("name", ["not_utf8", "ten_megabytes", "ten_megabytes_of_errors"])
def test_whatever_else_a_runner_says_it_is_complete_when_it_says_that(place: Place, tmp_path: Path, name: str) -> None:
    assert Stage(place, tmp_path, name).run().end is StageEnd.COMPLETE


def test_a_child_that_keeps_the_output_open_is_not_waited_for_and_not_left(place: Place, tmp_path: Path) -> None:
    stage = Stage(place, tmp_path, "child_keeps_output")
    assert stage.run().end is StageEnd.COMPLETE
    assert len(stage.children) == 1
    assert place.is_clean(stage)


def test_a_cancelled_stage_is_asked_to_stop(place: Place, tmp_path: Path) -> None:
    stage = Stage(place, tmp_path, "waits_for_ever")
    outcome = stage.run(cancelled=lambda: bool(stage.said))
    assert (outcome.end, outcome.reason) == (StageEnd.CANCELLED, "training was cancelled")
    assert place.is_clean(stage)


def test_a_cancelled_stage_that_heeds_no_signal_is_killed_with_its_children(place: Place, tmp_path: Path) -> None:
    stage = Stage(place, tmp_path, "heeds_no_signal", grace=0.1)
    assert stage.run(cancelled=lambda: bool(stage.said)).end is StageEnd.CANCELLED
    assert len(stage.children) == 1
    assert place.is_clean(stage)


def test_a_stage_that_takes_too_long_is_stopped(place: Place, tmp_path: Path) -> None:
    stage = Stage(place, tmp_path, "waits_for_ever", seconds=0.3)
    outcome = stage.run()
    assert (outcome.end, outcome.reason) == (StageEnd.TIMED_OUT, "training took longer than 0.3 seconds")
    assert place.is_clean(stage)


def test_who_listens_and_fails_leaves_nothing_running(place: Place, tmp_path: Path) -> None:
    stage = Stage(place, tmp_path, "heeds_no_signal")

    def fail() -> bool:
        if any(isinstance(said, LogLine) for said in stage.said):
            raise RuntimeError
        return False

    with pytest.raises(RuntimeError):
        stage.run(cancelled=fail)
    assert place.is_clean(stage)


def test_a_stage_is_ended_by_its_name_and_another_is_not(place: Place, tmp_path: Path) -> None:
    stage = Stage(place, tmp_path, "waits_for_ever")
    ended: list[bool] = []

    def end() -> bool:
        if stage.said and not ended:
            name = stage.names[0]
            ended.append(end_by_name(f"{name}0"))
            ended.append(end_by_name(name))
        return False

    outcome = stage.run(cancelled=end)
    assert ended == [False, True]
    assert outcome.end is StageEnd.FAILED
    assert not end_by_name(stage.names[0])
    assert place.is_clean(stage)


def test_a_real_stage_reads_its_documents_and_leaves_its_files(place: Place, tmp_path: Path) -> None:
    if isinstance(place, InEngine) and FINE_TUNE_IMAGE not in os.environ:
        pytest.skip(f"{FINE_TUNE_IMAGE} is not set")
    (tmp_path / "docs").mkdir()
    texts = ("The pump of hall seven failed at night.", "Invoices are paid on the first Monday.", "Ada keeps the keys.")
    for number, text in enumerate(texts):
        (tmp_path / "docs" / f"{number}.md").write_text(text, "utf-8")
    config = GeneratingConfig(
        stage=FineTuneStage.GENERATING_DATA,
        source_dir=str(tmp_path / "docs"),
        output_dir=str(tmp_path / "run" / "data"),
    )
    outcome = Stage(place, tmp_path, REAL, config=config).run()
    assert outcome.end is StageEnd.COMPLETE, outcome.reason
    names = ("training.jsonl", "validation.jsonl")
    found = {pair.positive_passage for name in names for pair in read_lines(tmp_path / "run" / "data" / name, Pair)}
    assert found == set(texts)
