"""A stage runner's configuration: one JSON file, whose keys depend on the stage."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, TypeAdapter, ValidationError

from memcore.errors import MemoryInputError
from memcore.models.base import DataPath, Frozen
from memcore.models.finetune import STAGES, FineTuneStage, Kind, ModelName

#: The file's place by default.
DEFAULT_CONFIG = Path("/etc/fine-tune/config.json")

#: Largest file that is read, in bytes.
_MAX_BYTES = 1_048_576


class _Stage(Frozen):
    """The settings of every stage; with one thread the same input gives the same output on one kind of CPU."""

    output_dir: DataPath
    kind: Kind = "transformer"
    seed: int = Field(default=0, ge=0, lt=2**31)
    threads: int = Field(default=1, ge=1, le=128)


class GeneratingConfig(_Stage):
    """Makes pairs of documents and gathered passages."""

    stage: Literal[FineTuneStage.GENERATING_DATA]
    source_dir: DataPath | None = None
    passages_path: DataPath | None = None
    validation_split: float = Field(default=0.1, gt=0.0, lt=1.0)
    chunk_words: int = Field(default=512, ge=16, le=8_192)
    queries_per_passage: int = Field(default=2, ge=1, le=8)
    max_pairs: int = Field(default=5_000, ge=2, le=1_000_000)


class MiningConfig(_Stage):
    """Makes triples of pairs."""

    stage: Literal[FineTuneStage.MINING_NEGATIVES]
    training_data_path: DataPath
    base_model: ModelName | None = None
    top_k: int = Field(default=1, ge=1, le=64)
    max_pairs: int | None = Field(default=None, ge=2, le=1_000_000)


class TrainingConfig(_Stage):
    """Trains a checkpoint on triples."""

    stage: Literal[FineTuneStage.TRAINING]
    training_data_path: DataPath
    base_model: ModelName | None = None
    epochs: int = Field(default=3, ge=1, le=1_000)
    learning_rate: float | None = Field(default=None, gt=0.0, le=1.0)
    temperature: float = Field(default=0.02, gt=0.0, le=10.0)
    batch_size: int | None = Field(default=None, ge=1, le=4_096)
    max_pairs: int | None = Field(default=None, ge=2, le=1_000_000)
    minutes: float = Field(default=30.0, gt=0.0, le=660.0)


class EvaluatingConfig(_Stage):
    """Compares a checkpoint with its base."""

    stage: Literal[FineTuneStage.EVALUATING]
    checkpoint_path: DataPath
    base_model: ModelName | None = None
    validation_data_path: DataPath
    training_data_path: DataPath | None = None


class DeployingConfig(Frozen):
    """Checks a checkpoint before it is handed over."""

    stage: Literal[FineTuneStage.DEPLOYING]
    checkpoint_path: DataPath


RunnerConfig = GeneratingConfig | MiningConfig | TrainingConfig | EvaluatingConfig | DeployingConfig

_CONFIG: TypeAdapter[RunnerConfig] = TypeAdapter(Annotated[RunnerConfig, Field(discriminator="stage")])


def read_config(path: Path) -> RunnerConfig:
    """Return the file's configuration. Raises MemoryInputError, which names the field."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise MemoryInputError("config", f"{path} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise MemoryInputError("config", f"{path} has more than {_MAX_BYTES} bytes")
    try:
        parsed: object = json.loads(content)
    except ValueError:
        raise MemoryInputError("config", f"{path} is no JSON") from None
    return checked_config(parsed)


def checked_config(parsed: object) -> RunnerConfig:
    """Return the configuration; MemoryInputError names the field that breaks a limit."""
    if not isinstance(parsed, dict):
        raise MemoryInputError("config", "must be a JSON object")
    fields = cast("dict[str, Any]", parsed)
    known = [str(stage) for stage in STAGES]
    if fields.get("stage") not in known:
        raise MemoryInputError("stage", f"must be one of {', '.join(known)}")
    try:
        # The file says a stage by its value, which strict enums would not take from Python.
        return _CONFIG.validate_json(json.dumps(fields))
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
