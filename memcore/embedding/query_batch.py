"""Embedders that can take several questions at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from memcore.embedding.protocol import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class QueryBatchEmbedder(Embedder, Protocol):
    """An embedder whose model takes several texts in one run or request, questions too."""

    def embed_queries(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return for each text the row that ``embed_query`` gives it, shape (len(texts), dims)."""
        ...
