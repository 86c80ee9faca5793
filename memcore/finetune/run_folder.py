"""The folder of a run: each attempt at a stage has its own, so that two attempts never write the same file."""

import shutil
from collections.abc import Collection
from pathlib import Path

from memcore.errors import FineTuneStageError
from memcore.finetune.documents import hash_of
from memcore.ledger.embedders.finetune_runs import Files, FineTuneRun
from memcore.models.finetune import FineTuneStage

#: Where the runs of a machine lie, under its data folder.
RUNS = Path("fine-tune") / "runs"

#: Where the runners of a machine find their configurations.
SCRATCH = Path("fine-tune") / "scratch"


class RunFolder:
    """Finds and checks the files of a run.

    Args:
        root: where the runs of this machine lie.
        run_id: whose folder.
    """

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
