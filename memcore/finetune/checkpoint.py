"""Checkpoints: load and save models, the manifest, the ONNX export, and the check, choice and deletion of a folder."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from tokenizers import Tokenizer

from memcore.embedding.onnx import OnnxEmbedder, OnnxFolder
from memcore.embedding.protocol import PromptPrefixes
from memcore.embedding.selection import EmbedderChoice
from memcore.embedding.static import TABLE_FILE, TENSOR, TOKENIZER_FILE, StaticTable
from memcore.errors import CheckpointCorruptError, FineTuneStageError, MemoryInputError
from memcore.finetune.documents import hash_of
from memcore.finetune.encoder import DEFAULT_TRANSFORMER, load_model, needed
from memcore.finetune.evaluate import EvalReport
from memcore.ledger.collections import Checkpoint
from memcore.models.base import Frozen
from memcore.models.finetune import DEFAULT_STATIC

#: The plan's word for the kind.
STATIC = "static"


def load_static(base_model: str | None = None) -> Any:
    """Return a sentence-transformers model of one table, whose vectors are the default embedder's.

    Its texts must be folded as the embedder folds them (memcore.embedding.bm25.fold).
    Raises FineTuneDependencyError, MemoryConfigError when the table's wheel is missing, and MemoryInputError.
    """
    if base_model not in {None, DEFAULT_STATIC}:
        raise MemoryInputError("base_model", f"must be {DEFAULT_STATIC} for kind static")
    model = StaticTable.of_wheel()
    return static_of(model.table, model.tokenizer)


def static_of(table: NDArray[np.float32], tokenizer: Tokenizer) -> Any:
    """Return the model of a table of token vectors; FineTuneDependencyError when its library is missing."""
    library = needed("sentence_transformers")
    modules = needed("sentence_transformers.sentence_transformer.modules")
    # A copy: training writes to it, and the caller may use the table again.
    module = modules.StaticEmbedding(tokenizer, embedding_weights=table.copy())
    return library.SentenceTransformer(modules=[module], device="cpu")


#: The folder in the stage's output, and the manifest in it; written last, so that a folder with it is whole.
CHECKPOINT = "checkpoint"
MANIFEST_FILE = "memtend.json"

#: The base model by default.
DEFAULT_MODELS = {"transformer": DEFAULT_TRANSFORMER, STATIC: DEFAULT_STATIC}

#: Most that a value of the exported model may differ from torch's.
_TOLERANCE = 1e-4

#: A checkpoint is trained, measured and used without prefixes, whatever those of its base model are.
_UNPREFIXED = PromptPrefixes()

_PROBES = ("What did they decide?", "The pump failed at night, and nobody saw it until the morning shift came.")


class Manifest(Frozen):
    """The manifest of a checkpoint; its hash is over the names and contents of all other files."""

    kind: str
    base_model: str
    dims: int
    sha256: str


def save_checkpoint(model: Any, output: Path, *, kind: str, base_model: str | None) -> Path:
    """Write the checkpoint and return its folder, in place of an earlier one.

    Raises FineTuneStageError when the answers of a transformer's ONNX export differ from torch's.
    """
    output.mkdir(parents=True, exist_ok=True)
    beside = output / f".{CHECKPOINT}.{os.getpid()}"
    shutil.rmtree(beside, ignore_errors=True)
    try:
        dims = _save_static(model, beside) if kind == STATIC else _save_transformer(model, beside)
        base_model = base_model or DEFAULT_MODELS[kind]
        manifest = Manifest(kind=kind, base_model=base_model, dims=dims, sha256=folder_hash(beside))
        (beside / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=1), "utf-8")
        target = output / CHECKPOINT
        shutil.rmtree(target, ignore_errors=True)
        beside.replace(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


def read_manifest(folder: Path) -> Manifest:
    """Return a checkpoint's manifest; MemoryInputError when the folder holds none, or its files have changed."""
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST_FILE).read_bytes(), extra="ignore")
    except (OSError, ValidationError):
        raise MemoryInputError("checkpoint_path", "names no checkpoint") from None
    if folder_hash(folder) != manifest.sha256:
        raise MemoryInputError("checkpoint_path", "names a checkpoint whose files are not those that were written")
    return manifest


def load_checkpoint(folder: Path) -> Any:
    """Return the checkpoint as a sentence-transformers model. Raises FineTuneDependencyError, MemoryInputError."""
    if read_manifest(folder).kind != STATIC:
        return load_model(str(folder))
    try:
        table = needed("safetensors.numpy").load_file(folder / TABLE_FILE)[TENSOR]
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    except (OSError, KeyError, ValueError) as error:
        raise MemoryInputError("checkpoint_path", "names a checkpoint that cannot be read") from error
    return static_of(table, tokenizer)


def folder_hash(folder: Path) -> str:
    """Return the SHA-256 over the names and the contents of the folder's files, the manifest left out."""
    whole = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name != MANIFEST_FILE):
        whole.update(f"{path.relative_to(folder).as_posix()} {hash_of(path)}\n".encode())
    return whole.hexdigest()


def _save_static(model: Any, folder: Path) -> int:
    folder.mkdir(parents=True)
    module = model[0]
    table = module.embedding.weight.detach().cpu().numpy().astype(np.float32)
    needed("safetensors.numpy").save_file({TENSOR: table}, folder / TABLE_FILE)
    module.tokenizer.save(str(folder / TOKENIZER_FILE))
    return int(table.shape[1])


def _save_transformer(model: Any, folder: Path) -> int:
    model.save_pretrained(str(folder), create_model_card=False)
    _export(model, folder / "model.onnx")
    exported = OnnxEmbedder(OnnxFolder.read(folder), prompt_prefixes=_UNPREFIXED).embed_documents(list(_PROBES))
    expected = model.encode(list(_PROBES), normalize_embeddings=True, show_progress_bar=False)
    worst = float(np.abs(np.asarray(exported) - np.asarray(expected)).max())
    if worst > _TOLERANCE:
        raise FineTuneStageError(f"the exported model differs from the trained one by {worst:.2g} in a value")
    return int(model.get_embedding_dimension())


def _export(model: Any, target: Path) -> None:
    torch = needed("torch")
    encoder = model[0].auto_model.eval().cpu()
    tokenized = model.tokenizer(list(_PROBES), padding=True, return_tensors="pt")
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in tokenized]

    class Tokens(torch.nn.Module):  # type: ignore[misc, name-defined]  # known when the library is there
        """The model from named inputs, in order, to its tokens' vectors."""

        def __init__(self) -> None:
            super().__init__()
            # A part of it, so that the export finds its weights.
            self.encoder = encoder

        def forward(self, *inputs: Any) -> Any:
            return self.encoder(**dict(zip(names, inputs, strict=True))).last_hidden_state

    free = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        Tokens(),
        tuple(tokenized[name] for name in names),
        str(target),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes=dict.fromkeys([*names, "last_hidden_state"], free),
        opset_version=17,
        dynamo=False,
    )


def require_whole(checkpoint: Checkpoint) -> None:
    """Raise CheckpointCorruptError unless the folder is what was registered."""
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
    return EmbedderChoice(
        provider=provider, model=checkpoint.model_path, dims=checkpoint.dims, prompt_prefixes=_UNPREFIXED
    )


def fusion_weight_of(checkpoint: Checkpoint, *, at_least: float) -> float:
    """Return the fusion weight that its evaluation found best, but no less than an embedder without one has.

    Most questions of an evaluation repeat words of their passage, more than people do: its best weight is rather too
    small, and a model that leads its base by meaning deserves no smaller share. Raises CheckpointCorruptError.
    """
    try:
        return max(EvalReport.model_validate(checkpoint.report, extra="ignore").fusion_weight, at_least)
    except ValidationError:
        raise CheckpointCorruptError(f"the report of checkpoint {checkpoint.checkpoint_id} has another form") from None


def delete_files(checkpoint: Checkpoint) -> bool:
    """Delete the folder as far as it can be; False when something of it is left."""
    folder = Path(checkpoint.model_path)
    # A row that names any other place deletes nothing there. Of two kinds, each has a folder of its own in the stage's.
    stage = folder.parent.parent if folder.parent.name in DEFAULT_MODELS else folder.parent
    if (folder.name, stage.parent.name) == (CHECKPOINT, checkpoint.run_id):
        return delete_folder(folder)
    return not folder.exists()


def delete_folder(folder: Path) -> bool:
    """Delete a folder of weights as far as it can be; False when something of it is left."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
