"""The noise of an embedder: measured, higher where unrelated texts lie nearer, and never above 1."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from support.hashing_embedder import HashingEmbedder

from memcore.embedding.calibration import noise_of
from memcore.embedding.factory import create_embedder


class Shifted(HashingEmbedder):
    """Adds the same direction to every text's vector: unrelated texts come nearer."""

    def __init__(self, shift: float) -> None:
        super().__init__(dims=256)
        self._shift = shift

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        vectors = super().embed_documents(texts) + np.float32(self._shift)
        whole: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return whole.astype(np.float32)


def test_the_default_embedders_noise_is_the_rounded_constant() -> None:
    assert noise_of(create_embedder("static")) == pytest.approx(0.4, abs=0.05)


def test_an_embedder_that_finds_texts_more_alike_has_more_noise() -> None:
    noises = [noise_of(Shifted(shift)) for shift in (0.0, 0.05, 0.1)]
    assert noises == sorted(noises)
    assert noises[0] < noises[-1] - 0.1
    assert noise_of(Shifted(100.0)) == pytest.approx(1.0, abs=0.01)
