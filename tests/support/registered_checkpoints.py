"""Checkpoints as complete fine-tune runs leave them: a folder, and a row in the ledger."""

from datetime import timedelta
from pathlib import Path

from memcore.finetune.checkpoint import CHECKPOINT, MANIFEST_FILE, Manifest, folder_hash
from memcore.ledger.collections import Checkpoint, Verdict
from memcore.ledger.ledger import Ledger
from support.checkpoint_files import static_checkpoint
from support.checkpoint_rows import checkpoint_row
from support.finetune_fixture import report

#: Length of the vectors of these checkpoints.
DIMS = 32

#: The weight of meaning that their evaluation found best.
WEIGHT = 0.65


def registered(
    ledger: Ledger, company: str, runs: Path, *, seed: int = 0, verdict: Verdict = Verdict.PROMOTED
) -> Checkpoint:
    """Let a run end with a checkpoint, a table of word vectors that are the seed's."""
    run = ledger.finetune_runs.start(company, {})
    claimed = ledger.finetune_runs.claim(company, run.run_id, lease=timedelta(minutes=1))
    assert claimed is not None
    assert claimed.token is not None
    folder = static_checkpoint(runs / run.run_id / f"training-{claimed.attempt}" / CHECKPOINT, dims=DIMS, seed=seed)
    manifest = Manifest(kind="static", base_model="words", dims=DIMS, sha256=folder_hash(folder))
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(), "utf-8")
    found = report().model_copy(update={"fusion_weight": WEIGHT}).model_dump(mode="json")
    row = checkpoint_row(run.run_id, company=company, at=run.started_at).model_copy(
        update={
            "model_path": str(folder),
            "dims": DIMS,
            "sha256": manifest.sha256,
            "report": found,
            "verdict": verdict,
        }
    )
    ledger.finetune_runs.complete(company, run.run_id, claimed.token, checkpoint=row)
    return row
