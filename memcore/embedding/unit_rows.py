"""Rows of numbers from a model, made into vectors of unit length."""

from typing import TYPE_CHECKING

import numpy as np

from memcore.errors import MemoryEmbeddingError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
