"""Every embedder that runs without a GPU or a download."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoint_files import static_checkpoint
from support.embedding_server import embedding_server
from support.hashing_embedder import HashingEmbedder

from memcore.embedding import remote
from memcore.embedding.batching import CachedEmbedder
from memcore.embedding.factory import EMBEDDER_NAMES, create_embedder
from memcore.embedding.onnx import minilm_folder
from memcore.embedding.protocol import Embedder
from memcore.embedding.remote import JsonPost, OpenAiCompatibleEmbedder
from memcore.embedding.selection import EmbedderChoice
from memcore.embedding.sentence_transformers import SentenceTransformersEmbedder


class LoadedModel:
    """What SentenceTransformersEmbedder asks of a loaded model, with rows that are not of unit length."""

    def encode(self, sentences: list[str], /, **_options: Any) -> Any:
        return HashingEmbedder(dims=32).embed_documents(sentences) * np.float32(7.0)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported checkpoint as optimum writes it."""
    folder, files = tmp_path_factory.mktemp("checkpoints") / "tuned", minilm_folder()
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").symlink_to(files.model)
    (folder / "tokenizer.json").symlink_to(files.tokenizer)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    return folder


@pytest.fixture(
    scope="module",
    params=[
        *EMBEDDER_NAMES,
        "onnx",
        "static-folder",
        "sentence-transformers",
        "openai-compatible",
        "server-from-the-factory",
        "cached",
        "hashing",
    ],
)
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    match request.param:
        case "onnx":
            folder = str(request.getfixturevalue("checkpoint"))
            yield create_embedder(EmbedderChoice(provider="onnx", model=folder, dims=384))
        case "static-folder":
            folder = str(static_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tuned"))
            yield create_embedder(EmbedderChoice(provider="static", model=folder, dims=32))
        case "sentence-transformers":
            yield SentenceTransformersEmbedder(LoadedModel(), name="loaded")
        case "openai-compatible":
            with embedding_server() as server, pytest.MonkeyPatch.context() as patch:
                patch.setattr(remote, "MAX_INPUTS", 3)
                yield OpenAiCompatibleEmbedder(JsonPost(server.url), model="stub")
        case "server-from-the-factory":
            with embedding_server() as server:
                yield create_embedder(EmbedderChoice(provider="vllm", model="stub", dims=16, url=server.url))
        case "cached":
            yield CachedEmbedder(SentenceTransformersEmbedder(LoadedModel(), name="loaded"), max_texts=4)
        case "hashing":
            yield HashingEmbedder()
        case name:
            yield create_embedder(name)
