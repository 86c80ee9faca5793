"""A stage by its configuration: reads what the stages before it left, and leaves what the next ones read."""

import importlib.util
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, assert_never

from memcore.embedding.tokenizer import fold
from memcore.finetune.checkpoint import load_checkpoint, read_manifest
from memcore.finetune.documents import Reading, passages_of
from memcore.finetune.encoder import Encoder, load_model, needed
from memcore.finetune.evaluate import REPORT_FILE, evaluate
from memcore.finetune.generate import generate
from memcore.finetune.lines import read_lines, write_text
from memcore.finetune.mine import mine
from memcore.finetune.passage import Passage
from memcore.finetune.runner_config import (
    DeployingConfig,
    EvaluatingConfig,
    GeneratingConfig,
    MiningConfig,
    RunnerConfig,
    TrainingConfig,
)
from memcore.finetune.static_model import STATIC, load_static
from memcore.finetune.train import train
from memcore.finetune.watch import Watch


def perform(config: RunnerConfig, watch: Watch) -> None:
    """Carry out a stage.

    Raises:
        MemoryError: it failed; the message says why in one sentence.
        FineTuneCancelledError: it was cancelled.
        OSError: a file could not be written.
    """
    match config:
        case GeneratingConfig():
            generate(_passages(config), config, Path(config.output_dir), watch=watch)
            watch.done(1.0)
        case MiningConfig():
            _one_way(config.threads)
            encoder = _encoder(config.kind, _base(config.kind, config.base_model))
            mine(Path(config.training_data_path), encoder, Path(config.output_dir), top_k=config.top_k, watch=watch)
        case TrainingConfig():
            _one_way(config.threads)
            train(Path(config.training_data_path), Path(config.output_dir), config, watch=watch)
        case EvaluatingConfig():
            _one_way(config.threads)
            _evaluate(config, watch)
        case DeployingConfig():
            read_manifest(Path(config.checkpoint_path))
            watch.done(1.0)
        case _:
            assert_never(config)


def _passages(config: GeneratingConfig) -> Iterator[Passage]:
    gathered = () if config.passages_path is None else read_lines(Path(config.passages_path), Passage)
    if config.source_dir is None:
        return iter(gathered)
    documents = passages_of(Path(config.source_dir), chunk_words=config.chunk_words, reading=Reading())
    return chain(documents, gathered)


def _evaluate(config: EvaluatingConfig, watch: Watch) -> None:
    folder = Path(config.checkpoint_path)
    read_manifest(folder)
    training = None if config.training_data_path is None else Path(config.training_data_path)
    report = evaluate(
        Path(config.validation_data_path),
        training,
        _encoder(config.kind, load_checkpoint(folder)),
        _encoder(config.kind, _base(config.kind, config.base_model)),
        seed=config.seed,
        watch=watch,
    )
    output = Path(config.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    write_text(output / REPORT_FILE, report.model_dump_json(indent=1))


def _base(kind: str, base_model: str | None) -> Any:
    if kind == STATIC:
        return load_static(base_model)
    return load_model(base_model)


def _encoder(kind: str, model: Any) -> Encoder:
    return Encoder(model, prepared=fold) if kind == STATIC else Encoder(model)


def _one_way(threads: int) -> None:
    """Let the arithmetic take so many threads; one gives the same result each time."""
    if importlib.util.find_spec("torch") is not None:
        needed("torch").set_num_threads(threads)
