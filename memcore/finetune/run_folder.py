"""A run's folder: the files of each attempt at a stage, and the configuration made of what earlier stages left."""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from memcore.errors import FineTuneStageError
from memcore.finetune.checkpoint import MANIFEST_FILE
from memcore.finetune.documents import hash_of
from memcore.finetune.evaluate import REPORT_FILE
from memcore.finetune.generate import TRAINING_FILE, VALIDATION_FILE
from memcore.finetune.mine import TRIPLES_FILE
from memcore.finetune.runner_config import RunnerConfig, checked_config
from memcore.ledger.finetune_runs import Files, FineTuneRun
from memcore.models.finetune import FineTunePlan, FineTuneStage

#: Where a machine's runs lie, under its data folder, and where their runners find their configurations.
RUNS = Path("fine-tune") / "runs"
SCRATCH = Path("fine-tune") / "scratch"


class RunFolder:
    """Finds and checks the files of a run; two attempts never write the same file."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.path = root / run_id

    def open(self, stage: FineTuneStage, attempt: int) -> Path:
        """Return an empty folder for an attempt at a stage; what earlier ones left is removed. Raises OSError.

        Files of later attempts stay: a worker that wakes up late must not remove another's work.
        """
        # Agents' texts lie here: only this user may read them.
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.drop(stage, before=attempt)
        folder = self.path / f"{stage}-{attempt}"
        folder.mkdir(mode=0o700)
        return folder

    def drop(self, stage: FineTuneStage, *, before: int) -> None:
        """Remove what attempts at a stage left whose numbers are lower."""
        for folder in self.path.glob(f"{stage}-*"):
            number = folder.name.rpartition("-")[2]
            if number.isdigit() and int(number) < before:
                shutil.rmtree(folder, ignore_errors=True)

    def drop_others(self, stages: Collection[FineTuneStage]) -> None:
        """Remove what these stages of other runs left, which have ended; a resumed one makes it again."""
        for run in self.path.parent.glob("*"):
            if run != self.path:
                for stage in stages:
                    for folder in run.glob(f"{stage}-*"):
                        shutil.rmtree(folder, ignore_errors=True)

    def files(self, folder: Path) -> Files:
        """Return the files of an attempt with their hashes. Raises OSError."""
        found = sorted(each for each in folder.rglob("*") if each.is_file())
        return {each.relative_to(self.path).as_posix(): hash_of(each) for each in found}

    def has(self, files: Files) -> bool:
        """Whether all these files are there, unchanged."""
        try:
            return all(hash_of(self.path / place) == known for place, known in files.items())
        except OSError:
            return False

    def place(self, run: FineTuneRun, stage: FineTuneStage, name: str) -> Path:
        """Return where a finished stage left the file of that name. Raises FineTuneStageError: it left none."""
        for place in run.finished.get(stage, {}):
            if Path(place).name == name:
                return self.path / place
        raise FineTuneStageError(f"{stage} left no {name}")


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
    """Return the configuration of a leased run's next stage, whose attempt writes to the output.

    Raises FineTuneStageError when a stage before it left no such file, MemoryInputError when a value breaks a limit.
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
