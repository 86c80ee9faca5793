"""A run's folder: the files of each attempt at a stage, and the configuration made of what earlier stages left."""

import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memcore.errors import FineTuneStageError
from memcore.finetune.checkpoint import MANIFEST_FILE
from memcore.finetune.documents import hash_of
from memcore.finetune.evaluate import REPORT_FILE, EvalReport
from memcore.finetune.generate import TRAINING_FILE, VALIDATION_FILE
from memcore.finetune.mine import TRIPLES_FILE
from memcore.finetune.promotion import better
from memcore.finetune.runner_config import RunnerConfig, checked_config
from memcore.finetune.sizing import SIZES_FILE, Sizes
from memcore.ledger.finetune_runs import Files, FineTuneRun
from memcore.models.finetune import FineTunePlan, FineTuneStage, Kind

#: The company where nobody named one; older releases kept the runs of all companies at its place.
_FIRST_COMPANY = "default"


def folder_of(home: Path, company: str) -> Path:
    """Return where a company's fine-tuning lies in a data folder: no other company reads or removes it."""
    shared = home / "fine-tune"
    return shared if company == _FIRST_COMPANY else shared / "companies" / company


def runs_of(home: Path, company: str) -> Path:
    """Return where the folders of a company's runs lie."""
    return folder_of(home, company) / "runs"


def run_folders(home: Path, company: str, *, is_known: Callable[[str], bool]) -> list[Path]:
    """Return the folders of a company's runs; those at the place of older releases where it knows the run's id."""
    own, older = runs_of(home, company), runs_of(home, _FIRST_COMPANY)
    moved = [] if own == older else [each for each in sorted(older.glob("*")) if is_known(each.name)]
    return [*sorted(own.glob("*")), *moved]


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

    def place(self, run: FineTuneRun, stage: FineTuneStage, name: str, kind: Kind | None = None) -> Path:
        """Return where a finished stage left the file of that name, for one of two kinds.

        Raises FineTuneStageError: it left none.
        """
        for place in run.finished.get(stage, {}):
            path = Path(place)
            if path.name == name and (kind is None or kind in path.parts):
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


#: Stages that are carried out for each kind of a plan.
PER_KIND = (FineTuneStage.MINING_NEGATIVES, FineTuneStage.TRAINING, FineTuneStage.EVALUATING)


def missing_of(stage: FineTuneStage, plan: FineTunePlan, files: Files) -> str | None:
    """Return the name of a file that a stage should have left and did not; None where all are there."""
    names = [Path(place).name for place in files]
    wanted = len(plan.kinds) if stage in PER_KIND else 1
    return next((name for name in LEAVES[stage] if names.count(name) < wanted), None)


def config_of(
    run: FineTuneRun, plan: FineTunePlan, folder: RunFolder, output: Path, kind: Kind | None = None
) -> RunnerConfig:
    """Return the configuration of a leased run's next stage, whose attempt writes to the output.

    ``kind`` is the one that the stage works on, and the one that is handed over; the plan's first one when left out.
    Raises FineTuneStageError when a stage before it left no such file, MemoryInputError when a value breaks a limit.
    """
    kind = kind or plan.kinds[0]
    its = _one_of_two(plan, kind)
    recipe = plan.recipe(kind)
    if its is not None and run.stage in PER_KIND:
        output /= kind

    def left(stage: FineTuneStage, name: str) -> str:
        return str(folder.place(run, stage, name, its if stage in PER_KIND else None))

    shared: dict[str, Any] = {"output_dir": str(output), "kind": kind, **plan.model_dump(include={"seed", "threads"})}
    # Of two kinds, the base model that is named is the transformer's.
    is_named = kind == "transformer" or its is None
    generated, base = FineTuneStage.GENERATING_DATA, {"base_model": plan.base_model if is_named else None}
    fields: dict[str, Any]
    match run.stage:
        case FineTuneStage.GENERATING_DATA:
            names = {"source_dir", "validation_split", "chunk_words", "queries_per_passage"}
            passages = str(output / PASSAGES_FILE) if plan.is_gathered else None
            fields = {**shared, **plan.model_dump(include=names), "passages_path": passages}
            fields["max_pairs"] = max(plan.recipe(each).max_pairs for each in plan.kinds)
        case FineTuneStage.MINING_NEGATIVES:
            fields = {**shared, **base, "training_data_path": left(generated, TRAINING_FILE), "top_k": plan.top_k}
            fields["max_pairs"] = recipe.max_pairs
        case FineTuneStage.TRAINING:
            triples = left(FineTuneStage.MINING_NEGATIVES, TRIPLES_FILE)
            fields = {**shared, **base, **asdict(recipe), "training_data_path": triples}
            fields |= plan.model_dump(include={"epochs", "temperature", "minutes"})
        case FineTuneStage.EVALUATING:
            fields = {**shared, **base, "checkpoint_path": str(checkpoint_of(run, folder, its))}
            fields["validation_data_path"] = left(generated, VALIDATION_FILE)
            fields["training_data_path"] = left(generated, TRAINING_FILE)
        case FineTuneStage.DEPLOYING:
            fields = {"checkpoint_path": str(checkpoint_of(run, folder, its))}
        case _:
            raise FineTuneStageError(f"{run.stage} is no stage that does work")
    return checked_config({"stage": str(run.stage), **fields})


def _one_of_two(plan: FineTunePlan, kind: Kind) -> Kind | None:
    return kind if len(plan.kinds) > 1 else None


def checkpoint_of(run: FineTuneRun, folder: RunFolder, kind: Kind | None = None) -> Path:
    """Return the folder of the checkpoint that the training left, for one of two kinds. Raises FineTuneStageError."""
    return folder.place(run, FineTuneStage.TRAINING, MANIFEST_FILE, kind).parent


def report_of(run: FineTuneRun, folder: RunFolder, kind: Kind | None = None) -> EvalReport:
    """Return what the evaluation found, with what the training took. Raises FineTuneStageError, OSError."""
    try:
        found = folder.place(run, FineTuneStage.EVALUATING, REPORT_FILE, kind).read_bytes()
        report = EvalReport.model_validate_json(found, extra="ignore")
    except ValidationError:
        raise FineTuneStageError(f"{REPORT_FILE} has another form") from None
    with suppress(FineTuneStageError, ValidationError):
        # A run that another release began has none.
        sizes = folder.place(run, FineTuneStage.TRAINING, SIZES_FILE, kind)
        report = report.model_copy(update={"sizes": Sizes.model_validate_json(sizes.read_bytes(), extra="ignore")})
    return report


def handed_over(run: FineTuneRun, plan: FineTunePlan, folder: RunFolder) -> Kind | None:
    """Return the better one of two kinds; None of a plan with one. Raises FineTuneStageError, OSError."""
    if len(plan.kinds) == 1:
        return None
    return better({kind: report_of(run, folder, kind) for kind in plan.kinds})
