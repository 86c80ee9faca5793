"""What the runner of a stage is told: the plan, and the files that the stages before it left."""

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

#: What the worker gathered, in the folder of the first stage.
PASSAGES_FILE = "passages.jsonl"

#: What a stage must have left for those behind it; without it, it is not done, whatever its runner says.
LEAVES = {
    FineTuneStage.GENERATING_DATA: (TRAINING_FILE, VALIDATION_FILE),
    FineTuneStage.MINING_NEGATIVES: (TRIPLES_FILE,),
    FineTuneStage.TRAINING: (MANIFEST_FILE,),
    FineTuneStage.EVALUATING: (REPORT_FILE,),
}


def config_of(run: FineTuneRun, plan: FineTunePlan, folder: RunFolder, output: Path) -> RunnerConfig:
    """Return the configuration of the run's next stage.

    Args:
        run: in hand.
        plan: what it is to do.
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
    reported: dict[str, Any]
    match run.stage:
        case FineTuneStage.GENERATING_DATA:
            names = {"source_dir", "validation_split", "chunk_words", "queries_per_passage", "max_pairs"}
            passages = str(output / PASSAGES_FILE) if plan.is_gathered else None
            reported = {**shared, **plan.model_dump(include=names), "passages_path": passages}
        case FineTuneStage.MINING_NEGATIVES:
            reported = {**shared, **base, "training_data_path": left(generated, TRAINING_FILE), "top_k": plan.top_k}
        case FineTuneStage.TRAINING:
            names = {"base_model", "epochs", "learning_rate", "temperature", "batch_size"}
            triples = left(FineTuneStage.MINING_NEGATIVES, TRIPLES_FILE)
            reported = {**shared, **plan.model_dump(include=names), "training_data_path": triples}
        case FineTuneStage.EVALUATING:
            reported = {**shared, **base, "checkpoint_path": str(checkpoint_of(run, folder))}
            reported["validation_data_path"] = left(generated, VALIDATION_FILE)
            reported["training_data_path"] = left(generated, TRAINING_FILE)
        case FineTuneStage.DEPLOYING:
            reported = {"checkpoint_path": str(checkpoint_of(run, folder))}
        case _:
            raise FineTuneStageError(f"{run.stage} is no stage that does work")
    return checked_config({"stage": str(run.stage), **reported})


def checkpoint_of(run: FineTuneRun, folder: RunFolder) -> Path:
    """Return the folder of the checkpoint that the training left. Raises FineTuneStageError."""
    return folder.place(run, FineTuneStage.TRAINING, MANIFEST_FILE).parent
