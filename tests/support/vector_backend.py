"""An in-memory backend that makes vectors, so that the gate can judge without a store server."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memcore.backends.inmemory import InMemoryBackend
from memcore.embedding.bm25 import Bm25Encoder
from memcore.models.memory import MemoryEntry
from memcore.records import Vectors
from support.hashing_embedder import HashingEmbedder

_EMBEDDER, _ENCODER = HashingEmbedder(), Bm25Encoder()


class VectorInMemory(InMemoryBackend):
    """Keeps memories in the process, and makes vectors of texts as the mem0 backend does."""

    dense_weight = 0.4

    async def document_vectors(self, entries: Sequence[MemoryEntry]) -> list[Vectors]:
        texts = [entry.content for entry in entries]
        both = zip(_EMBEDDER.embed_documents(texts), _ENCODER.encode_documents(texts), strict=True)
        return [Vectors(dense=dense, sparse=sparse or None) for dense, sparse in both]

    async def query_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [_EMBEDDER.embed_query(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, _EMBEDDER.dims), dtype=np.float32)
