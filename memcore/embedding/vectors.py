"""Sparse vectors, relevance of BM25 scores, unit rows, and embedders that batch queries."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from memcore.embedding.protocol import Embedder
from memcore.errors import MemoryEmbeddingError, MemoryInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Highest index; Qdrant stores sparse indices as unsigned 32-bit numbers.
MAX_INDEX = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """A sparse vector in Qdrant's form; an empty one is false and matches nothing.

    Raises MemoryInputError when indices and values differ in number, when the indices are not strictly ascending
    within 0 and 2**32 - 1, or when a value is not a positive finite number.
    """

    #: Strictly ascending, 0 to 2**32 - 1.
    indices: tuple[int, ...] = ()
    #: One weight for each index, above 0.
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what Qdrant would reject, or worse, would accept and rank wrongly."""
        if len(self.indices) != len(self.values):
            raise MemoryInputError("values", f"{len(self.values)} values stand beside {len(self.indices)} indices")
        if self.indices and not (self.indices[0] >= 0 and self.indices[-1] <= MAX_INDEX):
            raise MemoryInputError("indices", f"must lie between 0 and {MAX_INDEX}")
        if list(self.indices) != sorted(set(self.indices)):
            raise MemoryInputError("indices", "must be strictly ascending")
        if self.values and not (all(map(math.isfinite, self.values)) and min(self.values) > 0.0):
            raise MemoryInputError("values", "must be positive finite numbers")

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self.indices)


class QueryBatchEmbedder(Embedder, Protocol):
    """An embedder whose model takes several texts in one run or request, questions too."""

    def embed_queries(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return for each text the row that ``embed_query`` gives it, shape (len(texts), dims)."""
        ...


def relevance_of(score: float) -> float:
    """Map a raw BM25 score, 0 or higher, to score / (1 + score): the order stays, where a clamp levels strong hits.

    Raises MemoryInputError for a negative score or one that is no number.
    """
    if not score >= 0.0:
        raise MemoryInputError("score", f"must be 0 or higher, not {score}")
    # The same fraction as score / (1 + score), in the form that stays 1.0 and not NaN when the score is infinite.
    return 1.0 - 1.0 / (1.0 + score) if score > 1.0 else score / (1.0 + score)


def score_of(relevance: float) -> float:
    """Map a relevance, 0 up to but not including 1, back to the raw score: a minimum relevance as a score threshold.

    Raises MemoryInputError outside that range: no finite score has relevance 1.
    """
    if not 0.0 <= relevance < 1.0:
        raise MemoryInputError("relevance", f"must be 0 or higher and below 1, not {relevance}")
    return relevance / (1.0 - relevance)


def unit_rows(rows: "NDArray[np.floating]", *, name: str) -> "NDArray[np.float32]":
    """Bring each row to length 1 and leave a row of zeros as it is; shape (n, dims) stays.

    Args:
        rows: what the model gave.
        name: the model, for the error.

    Raises MemoryEmbeddingError when a number is infinite or none.
    """
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise MemoryEmbeddingError(f"the model {name} gave a vector that is no number")
    unit: NDArray[np.float32] = (rows / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
    return unit
