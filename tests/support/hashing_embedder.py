"""An embedder without model or files, with predictable vectors."""

from collections.abc import Sequence

import mmh3
import numpy as np
from numpy.typing import NDArray

from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.protocol import EmbedderKind


class HashingEmbedder:
    """Count each word at a place that its hash chooses; texts that share words are near, and others are mostly far."""

    def __init__(self, *, dims: int = 64) -> None:
        self._dims = dims

    @property
    def name(self) -> str:
        return f"hashing-{self._dims}"

    @property
    def kind(self) -> EmbedderKind:
        return EmbedderKind.STATIC

    @property
    def dims(self) -> int:
        return self._dims

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.zeros((0, self._dims), np.float32)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector = np.zeros(self._dims, dtype=np.float32)
        for word in Tokenizer.words(text):
            vector[mmh3.hash(word, 0, signed=False) % self._dims] += 1.0
        if length := np.linalg.norm(vector):
            vector /= length
        return vector
