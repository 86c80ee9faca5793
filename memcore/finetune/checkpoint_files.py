"""A registered checkpoint's folder: whole or not, loaded how, deleted."""

import shutil
from pathlib import Path

from pydantic import ValidationError

from memcore.embedding.choice import EmbedderChoice
from memcore.errors import CheckpointCorruptError, MemoryInputError
from memcore.finetune.checkpoint import CHECKPOINT, read_manifest
from memcore.finetune.evaluate import EvalReport
from memcore.finetune.static_model import STATIC
from memcore.ledger.checkpoint import Checkpoint


def require_whole(checkpoint: Checkpoint) -> None:
    """Make sure that the folder is what was registered. Raises CheckpointCorruptError."""
    place = f"checkpoint {checkpoint.checkpoint_id} at {checkpoint.model_path}"
    try:
        manifest = read_manifest(Path(checkpoint.model_path))
    except (MemoryInputError, OSError):
        raise CheckpointCorruptError(
            f"{place} is gone, or has other files than were written; put the folder back, or train again"
        ) from None
    if (manifest.sha256, manifest.kind, manifest.dims) != (checkpoint.sha256, checkpoint.kind, checkpoint.dims):
        raise CheckpointCorruptError(f"{place} is another one than was registered; put the folder back, or train again")


def choice_of(checkpoint: Checkpoint) -> EmbedderChoice:
    """Return how the checkpoint is loaded without torch."""
    provider = "static" if checkpoint.kind == STATIC else "onnx"
    return EmbedderChoice(provider=provider, model=checkpoint.model_path, dims=checkpoint.dims)


def fusion_weight_of(checkpoint: Checkpoint, *, at_least: float) -> float:
    """Return the share of meaning that its evaluation found best, and no less than an embedder has without one.

    Most questions of an evaluation repeat words of their passage, which people do less: what it finds best is too small
    rather than too large, and a model that leads its base by meaning deserves no smaller share.

    Raises CheckpointCorruptError.
    """
    try:
        return max(EvalReport.model_validate(checkpoint.report).fusion_weight, at_least)
    except ValidationError:
        raise CheckpointCorruptError(f"the report of checkpoint {checkpoint.checkpoint_id} has another form") from None


def delete_files(checkpoint: Checkpoint) -> bool:
    """Delete the folder as far as it can be; False when something of it is left."""
    folder = Path(checkpoint.model_path)
    # A row that names any other place, whoever wrote it, deletes nothing there.
    if (folder.name, folder.parent.parent.name) != (CHECKPOINT, checkpoint.run_id):
        return not folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
