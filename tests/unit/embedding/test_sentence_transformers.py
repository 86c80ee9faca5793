from typing import Any

import numpy as np
import pytest
from support.hashing_embedder import HashingEmbedder

from memcore.embedding.protocol import PromptPrefixes
from memcore.embedding.sentence_transformers import SentenceTransformersEmbedder
from memcore.errors import MemoryEmbeddingError


class LoadedModel:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.error: Exception | None = None
        self.lost = 0

    def encode(self, sentences: list[str], /, **_options: Any) -> Any:
        self.asked.append(sentences)
        if self.error is not None:
            raise self.error
        return HashingEmbedder(dims=8).embed_documents(sentences)[self.lost :]


def test_each_side_has_its_instruction() -> None:
    model = LoadedModel()
    prompt_prefixes = PromptPrefixes(query_prefix="query: ", document_prefix="passage: ")
    embedder = SentenceTransformersEmbedder(model, name="e5", prompt_prefixes=prompt_prefixes)
    embedder.embed_documents(["tea", ""])
    embedder.embed_query("tea")
    assert model.asked == [["dims"], ["passage: tea"], ["query: tea"]]
    assert (embedder.name, embedder.dims) == ("e5+q='query: '+d='passage: '", 8)


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), ValueError("shape")])
def test_what_torch_says_becomes_one_of_our_errors(error: Exception) -> None:
    model = LoadedModel()
    embedder = SentenceTransformersEmbedder(model, name="loaded")
    model.error = error
    with pytest.raises(MemoryEmbeddingError, match="the model loaded failed"):
        embedder.embed_query("tea")


def test_a_row_too_few_is_no_answer() -> None:
    model = LoadedModel()
    embedder = SentenceTransformersEmbedder(model, name="loaded")
    model.lost = 1
    with pytest.raises(MemoryEmbeddingError, match="not one vector for each of 2 texts"):
        embedder.embed_documents(["tea", "garden"])


def test_a_vector_that_is_no_number_is_no_answer() -> None:
    class Broken(LoadedModel):
        def encode(self, sentences: list[str], /, **_options: Any) -> Any:
            return np.full((len(sentences), 8), np.nan)

    with pytest.raises(MemoryEmbeddingError, match="no number"):
        SentenceTransformersEmbedder(Broken(), name="broken")
