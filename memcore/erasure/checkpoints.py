"""Embedders that were trained on agents' memories: an erasure names them, and retires them where it was asked to."""

from collections.abc import Mapping
from pathlib import Path

from memcore.errors import CheckpointConflictError, CheckpointNotFoundError, MemoryConnectionError
from memcore.finetune.checkpoint import CHECKPOINT, delete_files, delete_folder
from memcore.finetune.run_folder import run_folders
from memcore.ledger.collections import MAX_PAGE, Checkpoint
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.models.finetune import FineTuneStage

#: The place of a checkpoint among those of a receipt, before its id; and that of weights without a row.
CHECKPOINT_PLACE, _FILES = "checkpoint:", "checkpoint_files"


class TrainedCheckpoints:
    """Finds and retires a company's checkpoints; training texts of all agents are mixed, so that each may hold any."""

    def __init__(self, ledger: Ledger, *, company: str, home: Path) -> None:
        self._ledger = ledger
        self._company = company
        self._home = home

    def find(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints whose training took memories, and those of which nobody knows."""
        found: list[Checkpoint] = []
        while page := self._ledger.checkpoints.page(self._company, limit=MAX_PAGE, offset=len(found)):
            found += page
        return tuple(each for each in found if self._took_memories(each.run_id))

    def require_unused(self) -> None:
        """Raise CheckpointConflictError where one of them may not be retired: it says what to do first."""
        for each in self.find():
            self._ledger.checkpoints.require_unused(self._company, each)

    def count(self) -> Mapping[str, int]:
        """Return each of them as a place, and how many folders of weights no row names: a crash leaves them."""
        return {f"{CHECKPOINT_PLACE}{each.checkpoint_id}": 1 for each in self.find()} | {_FILES: len(self._left())}

    def retire(self, confirmation: Confirmation) -> None:
        """Delete rows, with a line of the audit each, and weights; interrupted, a second call goes on.

        Raises MemoryConnectionError while one of them is in use, or where files cannot be deleted.
        """
        for each in self.find():
            note = confirmation.note("finetune.delete", each.checkpoint_id)
            try:
                self._ledger.checkpoints.remove(self._company, each.checkpoint_id, note=note)
            except CheckpointConflictError as error:
                raise MemoryConnectionError(str(error)) from error
            except CheckpointNotFoundError:
                continue  # a person was faster
            delete_files(each)
        for folder in self._left():
            if not delete_folder(folder):
                raise MemoryConnectionError(f"the weights {folder.relative_to(self._home)} stay")

    def retired(self, found: Mapping[str, int]) -> tuple[str, ...]:
        """Return the ids among the places in which an erasure has found something."""
        return tuple(sorted(name.removeprefix(CHECKPOINT_PLACE) for name in found if name.startswith(CHECKPOINT_PLACE)))

    def _took_memories(self, run_id: str) -> bool:
        run = self._ledger.finetune_runs.get(self._company, run_id)
        return run is None or run.plan.get("uses_memories") is not False

    def _is_known(self, run_id: str) -> bool:
        return self._ledger.finetune_runs.get(self._company, run_id) is not None

    def _left(self) -> list[Path]:
        """Return folders of weights of this company's runs that no checkpoint names."""
        folders = run_folders(self._home, self._company, is_known=self._is_known)
        runs = [each for each in folders if self._is_known(each.name) and self._took_memories(each.name)]
        known = {Path(each.model_path).resolve() for each in self.find()}
        stage = FineTuneStage.TRAINING
        patterns = (f"{stage}-*/{CHECKPOINT}", f"{stage}-*/*/{CHECKPOINT}")
        found = (folder for run in runs for pattern in patterns for folder in sorted(run.glob(pattern)))
        return [each for each in found if each.is_dir() and each.resolve() not in known]
