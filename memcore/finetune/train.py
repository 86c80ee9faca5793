"""Stage 3, training: pulls a question towards its passage and away from those that only look like it.

The loss is InfoNCE with the other passages of the batch and the mined ones as negatives (van den Oord et al. 2018;
sentence-transformers calls it MultipleNegativesRankingLoss, with a scale of one over the temperature).
"""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from memcore.embedding.bm25 import fold
from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.checkpoint import STATIC, load_static, save_checkpoint
from memcore.finetune.documents import Triple, read_lines, write_text
from memcore.finetune.encoder import PASSAGE_TOKENS, load_model, needed, positions_of
from memcore.finetune.markers import StageProgress
from memcore.finetune.runner_config import TrainingConfig
from memcore.finetune.sizing import SIZES_FILE, has_bf16, sizes_of
from memcore.models.finetune import RECIPES

#: Share of the steps in which the learning rate rises, and of the stage that is training; the export is the rest.
_WARM_UP = 0.1
_TRAINED = 0.95


def train(triples: Path, output: Path, config: TrainingConfig, *, watch: StageProgress) -> Path:
    """Train a model on the triples and return the folder of the checkpoint, which is there whole or not.

    The same triples, configuration and libraries, on one thread of one kind of CPU, give the same checkpoint to the
    last bit, where neither memory nor time cuts the sizes that were asked for.
    Raises FineTuneDependencyError, FineTuneTrainingDataError, FineTuneStageError (too little memory), MemoryInputError,
    FineTuneCancelledError.
    """
    rows = list(read_lines(triples, Triple))
    if not rows:
        raise FineTuneTrainingDataError("there are no triples to train on")
    model = load_static(config.base_model) if config.kind == STATIC else load_model(config.base_model)
    if isinstance(model.max_seq_length, int):
        # It is saved with the checkpoint.
        model.max_seq_length = min(PASSAGE_TOKENS, positions_of(model))
    recipe = RECIPES[config.kind]
    sizes = sizes_of(
        model,
        rows,
        kind=config.kind,
        batch_size=config.batch_size or recipe.batch_size,
        pairs=min(len(rows), config.max_pairs or recipe.max_pairs),
        temperature=config.temperature,
        minutes=config.minutes,
        epochs=config.epochs,
    )
    watch.check()
    # Dropout is random, and so was the measured step's.
    needed("transformers").set_seed(config.seed)
    with tempfile.TemporaryDirectory() as scratch:
        # The questions that somebody asked stand first.
        _fit(model, rows[: sizes.pairs], config, sizes.batch_size, watch, Path(scratch))
    watch.check()
    folder = save_checkpoint(model, output, kind=config.kind, base_model=config.base_model)
    write_text(output / SIZES_FILE, sizes.model_dump_json(indent=1))
    watch.done(1.0)
    return folder


def _fit(
    model: Any, rows: list[Triple], config: TrainingConfig, batch: int, watch: StageProgress, scratch: Path
) -> None:
    library = needed("sentence_transformers")
    loss = needed("sentence_transformers.sentence_transformer.losses").MultipleNegativesRankingLoss(
        model, scale=1.0 / config.temperature
    )
    arguments = library.SentenceTransformerTrainingArguments(
        output_dir=str(scratch),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=batch,
        learning_rate=config.learning_rate or RECIPES[config.kind].learning_rate,
        warmup_steps=_WARM_UP,
        save_strategy="no",
        eval_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=config.seed,
        data_seed=config.seed,
        # A passage that comes twice in a batch would be its own negative.
        batch_sampler="no_duplicates",
        multi_dataset_batch_sampler="proportional",
        bf16=has_bf16(),
    )
    trainer = library.SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=_datasets(rows, is_static=config.kind == STATIC),
        loss=loss,
        callbacks=[_callback(watch)],
    )
    # It prints dicts on the standard output, where the markers go.
    trainer.remove_callback(needed("transformers").PrinterCallback)
    trainer.train()


def _datasets(rows: list[Triple], *, is_static: bool) -> Any:
    """Return the rows by their number of negatives, since the rows of one dataset have the same columns."""
    by_number: dict[int, list[Triple]] = defaultdict(list)
    for row in rows:
        by_number[len(row.negatives)].append(row)
    prepared = fold if is_static else str
    library = needed("datasets")
    made: dict[str, Any] = {}
    for number, some in sorted(by_number.items()):
        texts = [(row.query, row.positive, *row.negatives) for row in some]
        names = ["anchor", "positive", *(f"negative_{place + 1}" for place in range(number))]
        columns = {name: [prepared(text[place]) for text in texts] for place, name in enumerate(names)}
        made[f"negatives_{number}"] = library.Dataset.from_dict(columns)
    return library.DatasetDict(made) if len(made) > 1 else next(iter(made.values()))


def _callback(watch: StageProgress) -> Any:
    base: Any = needed("transformers").TrainerCallback

    class Steps(base):  # type: ignore[misc]  # known when the library is there
        """Reports the progress after each step, and stops a cancelled training."""

        def on_step_end(self, _args: object, state: Any, control: Any, **_more: object) -> None:
            if watch.is_cancelled:
                control.should_training_stop = True
            elif state.max_steps:
                watch.done(_TRAINED * min(state.global_step / state.max_steps, 1.0))

    return Steps()
