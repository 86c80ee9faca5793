"""A checkpoint of a real training, loaded as the product loads it, beside the model that was trained."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from memcore.embedding.bm25 import fold
from memcore.embedding.factory import create_embedder
from memcore.embedding.selection import EmbedderChoice
from memcore.finetune.checkpoint import CHECKPOINT, load_checkpoint, read_manifest
from memcore.finetune.documents import Triple, write_lines
from memcore.finetune.encoder import needed
from memcore.finetune.markers import StageProgress
from memcore.finetune.runner import run_stage
from memcore.finetune.runner_config import TrainingConfig
from memcore.models.finetune import FineTuneStage

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(not os.environ.get("MEMTEND_TEST_TORCH"), reason="MEMTEND_TEST_TORCH is not set"),
    # The libraries warn of each other.
    pytest.mark.filterwarnings("ignore"),
]

Kind = Literal["transformer", "static"]

TEXTS = [
    "What did they decide about the pumps?",
    "The pump of hall seven failed at night, and nobody saw it until the morning shift came.",
    "Straße, naïve café, ÅNGSTRÖM",
    "東京で会議があります",
    "retry_count = 3  # raised after the outage",
    "a longer report of the night shift in hall seven " * 90,
]


def trained(folder: Path, kind: Kind, *, threads: int = 1) -> Path:
    write_lines(
        folder / "triples.jsonl",
        [
            Triple(query=f"What failed in hall {number}?", positive=f"The pump of hall {number} failed.", negatives=())
            for number in range(8)
        ],
    )
    config = TrainingConfig(
        stage=FineTuneStage.TRAINING,
        output_dir=str(folder),
        training_data_path=str(folder / "triples.jsonl"),
        kind=kind,
        epochs=1,
        batch_size=4,
        learning_rate=1e-4,
        threads=threads,
    )
    run_stage(config, StageProgress())
    return folder / CHECKPOINT


def by_torch(model: Any, texts: list[str]) -> Any:
    return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def test_a_transformer_is_the_same_without_torch(tmp_path: Path) -> None:
    folder = trained(tmp_path, "transformer")
    embedder = create_embedder(EmbedderChoice(provider="onnx", model=str(folder), dims=384))
    model = load_checkpoint(folder)
    np.testing.assert_allclose(embedder.embed_documents(TEXTS), by_torch(model, TEXTS), atol=1e-4)
    assert embedder.name.startswith("checkpoint-")
    assert embedder.name.endswith(f"-{model.max_seq_length}")
    assert model.max_seq_length == 512


def test_a_table_is_the_same_without_torch(tmp_path: Path) -> None:
    folder = trained(tmp_path, "static")
    embedder = create_embedder(EmbedderChoice(provider="static", model=str(folder), dims=256))
    expected = by_torch(load_checkpoint(folder), [fold(text) for text in TEXTS])
    np.testing.assert_allclose(embedder.embed_documents(TEXTS), expected, atol=1e-5)
    base = create_embedder("static").embed_documents(TEXTS)
    assert np.abs(embedder.embed_documents(TEXTS) - base).max() > 1e-4


@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_the_same_seed_on_one_thread_gives_the_same_checkpoint(tmp_path: Path, kind: Kind) -> None:
    torch, hashes = needed("torch"), set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        torch.set_num_threads(2)
        hashes.add(read_manifest(trained(tmp_path / name, kind)).sha256)
        assert torch.get_num_threads() == 1
    assert len(hashes) == 1


def test_more_threads_are_taken_when_they_are_asked_for(tmp_path: Path) -> None:
    needed("torch").set_num_threads(1)
    trained(tmp_path, "static", threads=2)
    assert needed("torch").get_num_threads() == 2
