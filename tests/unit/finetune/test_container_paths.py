from pathlib import Path

import pytest

from memcore.errors import MemoryInputError
from memcore.finetune.execution.docker import Bind, inside_container
from memcore.finetune.runner_config import (
    DeployingConfig,
    EvaluatingConfig,
    GeneratingConfig,
    MiningConfig,
    RunnerConfig,
)
from memcore.models.finetune import FineTuneStage

MINING = FineTuneStage.MINING_NEGATIVES


def of(config: object, run_id: str = "run-1") -> tuple[RunnerConfig, tuple[Bind, ...]]:
    return inside_container(run_id, config)  # type: ignore[arg-type]


def test_documents_are_read_only_also_where_they_lie_in_the_output(tmp_path: Path) -> None:
    source = tmp_path / "out" / "docs"
    source.mkdir(parents=True)
    translated, binds = of(
        GeneratingConfig(
            stage=FineTuneStage.GENERATING_DATA, source_dir=str(source), output_dir=str(tmp_path / "out"), seed=7
        )
    )
    assert translated == GeneratingConfig(
        stage=FineTuneStage.GENERATING_DATA, source_dir="/data", output_dir="/checkpoints/run-1", seed=7
    )
    assert binds == (
        Bind(source=tmp_path / "out", target="/checkpoints/run-1", is_writable=True),
        Bind(source=source, target="/data"),
    )


def test_what_earlier_stages_left_in_the_output_is_found_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "training.jsonl").touch()
    translated, binds = of(
        MiningConfig(
            stage=MINING, training_data_path=str(tmp_path / "data" / "training.jsonl"), output_dir=str(tmp_path)
        )
    )
    assert isinstance(translated, MiningConfig)
    assert translated.training_data_path == "/checkpoints/run-1/data/training.jsonl"
    assert len(binds) == 1


def test_what_lies_elsewhere_gets_a_place_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "tuned").mkdir()
    (tmp_path / "base").mkdir()
    (tmp_path / "questions.jsonl").touch()
    translated, binds = of(
        EvaluatingConfig(
            stage=FineTuneStage.EVALUATING,
            checkpoint_path=str(tmp_path / "tuned"),
            base_model=str(tmp_path / "base"),
            validation_data_path=str(tmp_path / "questions.jsonl"),
            training_data_path=str(tmp_path / "questions.jsonl"),
            output_dir=str(tmp_path / "out"),
        )
    )
    assert translated.model_dump(mode="json", exclude={"stage", "kind", "seed", "threads"}) == {
        "checkpoint_path": "/inputs/checkpoint_path/tuned",
        "base_model": "/inputs/base_model/base",
        "validation_data_path": "/inputs/training_data_path/questions.jsonl",
        "training_data_path": "/inputs/training_data_path/questions.jsonl",
        "output_dir": "/checkpoints/run-1",
    }
    assert [bind.is_writable for bind in binds] == [True, False, False, False]


def test_a_model_by_name_is_a_name_in_the_container(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").touch()
    config = MiningConfig(
        stage=MINING,
        training_data_path=str(tmp_path / "t.jsonl"),
        base_model="all-MiniLM-L6-v2",
        output_dir=str(tmp_path),
    )
    found, _ = of(config)
    assert isinstance(found, MiningConfig)
    assert found.base_model == "all-MiniLM-L6-v2"


def test_links_are_followed_before_they_are_mounted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    _, binds = of(DeployingConfig(stage=FineTuneStage.DEPLOYING, checkpoint_path=str(tmp_path / "link")))
    assert binds == (Bind(source=tmp_path / "real", target="/inputs/checkpoint_path/real"),)


def test_what_is_not_there_is_named_before_anything_is_mounted(tmp_path: Path) -> None:
    with pytest.raises(MemoryInputError, match="checkpoint_path"):
        of(DeployingConfig(stage=FineTuneStage.DEPLOYING, checkpoint_path=str(tmp_path / "nowhere")))


@pytest.mark.parametrize("run_id", ["", "../up", "a/b", ".hidden", "x" * 129])
def test_a_run_whose_name_is_no_folder_is_refused(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(MemoryInputError, match="run_id"):
        of(DeployingConfig(stage=FineTuneStage.DEPLOYING, checkpoint_path=str(tmp_path)), run_id)
