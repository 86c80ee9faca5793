"""Folders of checkpoints that a person deleted and that were left: by a death between row and folder, or elsewhere."""

from pathlib import Path

from memcore import ids
from memcore.finetune.run_folder import RunFolder
from memcore.finetune_models import FineTuneStage
from memcore.ledger.ledger import Ledger


def drop_deleted(runs: Path, ledger: Ledger, *, company: str) -> None:
    """Remove the checkpoint of each run of this machine that is complete and has none in the ledger.

    A run's end and its checkpoint's row are written together, so only a deletion parts them.
    """
    for folder in runs.glob("*"):
        run = ledger.finetune_runs.get(company, folder.name)
        if run is None or run.stage is not FineTuneStage.COMPLETE:
            continue
        if ledger.checkpoints.get(company, ids.checkpoint_id(company=company, run_id=run.run_id)) is None:
            RunFolder(runs, run.run_id).drop(FineTuneStage.TRAINING, before=run.attempt + 1)
