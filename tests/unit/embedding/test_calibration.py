"""The noise of an embedder: measured, higher where unrelated texts lie nearer, and never above 1."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from support.hashing_embedder import HashingEmbedder

from memcore.embedding.calibration import noise_of
from memcore.embedding.factory import create_embedder


class Shifted(HashingEmbedder):
    """Adds the same direction to every text's vector, or to memories' alone: unrelated texts come nearer."""

    def __init__(self, shift: float, *, also_questions: bool = True) -> None:
        super().__init__(dims=256)
        self._shift = shift
        self._also_questions = also_questions

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return np.stack([self._shifted(HashingEmbedder.embed_query(self, text)) for text in texts])

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector = super().embed_query(text)
        return self._shifted(vector) if self._also_questions else vector

    def _shifted(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        moved = vector + np.float32(self._shift)
        whole: NDArray[np.float32] = (moved / np.linalg.norm(moved)).astype(np.float32)
        return whole


def test_the_default_embedders_noise_is_the_rounded_constant() -> None:
    assert noise_of(create_embedder("static")) == pytest.approx(0.4, abs=0.05)


def test_an_embedder_that_finds_texts_more_alike_has_more_noise() -> None:
    noises = [noise_of(Shifted(shift)) for shift in (0.0, 0.05, 0.1)]
    assert noises == sorted(noises)
    assert noises[0] < noises[-1] - 0.1
    assert noise_of(Shifted(100.0)) == pytest.approx(1.0, abs=0.01)


def test_what_only_memories_share_is_no_noise_of_a_question() -> None:
    plain, prefixed = (noise_of(Shifted(shift, also_questions=False)) for shift in (0.0, 0.1))
    # Memories alone come nearer to one another, and no nearer to a question.
    assert prefixed <= plain
    assert noise_of(Shifted(0.1)) > plain + 0.1
