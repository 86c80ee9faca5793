"""Builds a stage runner's configuration of the plan and the earlier stages' files."""

from pathlib import Path
from typing import Any

from memcore.errors import FineTuneStageError
from memcore.finetune.checkpoint import MANIFEST_FILE
from memcore.finetune.evaluate import REPORT_FILE
from memcore.finetune.generate import TRAINING_FILE, VALIDATION_FILE
from memcore.finetune.mine import TRIPLES_FILE
from memcore.finetune.run_folder import RunFolder
from memcore.finetune.runner_config import RunnerConfig, checked_config
from memcore.ledger.embedders.finetune_runs import FineTuneRun
from memcore.models.finetune import FineTunePlan, FineTuneStage

#: The gathered passages, in the folder of the first stage.
PASSAGES_FILE = "passages.jsonl"

#: The file that proves a stage done; without it, it is not, whatever its runner reported.
LEAVES = {
    FineTuneStage.GENERATING_DATA: (TRAINING_FILE, VALIDATION_FILE),
    FineTuneStage.MINING_NEGATIVES: (TRIPLES_FILE,),
    FineTuneStage.TRAINING: (MANIFEST_FILE,),
    FineTuneStage.EVALUATING: (REPORT_FILE,),
}


def config_of(run: FineTuneRun, plan: FineTunePlan, folder: RunFolder, output: Path) -> RunnerConfig:
    """Return the configuration of the run's next stage.

    Args:
        run: the run, leased.
        plan: its plan.
        folder: the run's.
        output: where this attempt writes.

    Raises:
        FineTuneStageError: a stage before it left no such file.
        MemoryInputError: a value breaks a limit of the stage.
    """

    def left(stage: FineTuneStage, name: str) -> str:
        return str(folder.place(run, stage, name))

    shared: dict[str, Any] = {"output_dir": str(output), **plan.model_dump(include={"kind", "seed", "threads"})}
    generated, base = FineTuneStage.GENERATING_DATA, {"base_model": plan.base_model}
    fields: dict[str, Any]
    match run.stage:
        case FineTuneStage.GENERATING_DATA:
            names = {"source_dir", "validation_split", "chunk_words", "queries_per_passage", "max_pairs"}
            passages = str(output / PASSAGES_FILE) if plan.is_gathered else None
            fields = {**shared, **plan.model_dump(include=names), "passages_path": passages}
        case FineTuneStage.MINING_NEGATIVES:
            fields = {**shared, **base, "training_data_path": left(generated, TRAINING_FILE), "top_k": plan.top_k}
        case FineTuneStage.TRAINING:
            names = {"base_model", "epochs", "learning_rate", "temperature", "batch_size"}
            triples = left(FineTuneStage.MINING_NEGATIVES, TRIPLES_FILE)
            fields = {**shared, **plan.model_dump(include=names), "training_data_path": triples}
        case FineTuneStage.EVALUATING:
            fields = {**shared, **base, "checkpoint_path": str(checkpoint_of(run, folder))}
            fields["validation_data_path"] = left(generated, VALIDATION_FILE)
            fields["training_data_path"] = left(generated, TRAINING_FILE)
        case FineTuneStage.DEPLOYING:
            fields = {"checkpoint_path": str(checkpoint_of(run, folder))}
        case _:
            raise FineTuneStageError(f"{run.stage} is no stage that does work")
    return checked_config({"stage": str(run.stage), **fields})


def checkpoint_of(run: FineTuneRun, folder: RunFolder) -> Path:
    """Return the folder of the checkpoint that the training left. Raises FineTuneStageError."""
    return folder.place(run, FineTuneStage.TRAINING, MANIFEST_FILE).parent
