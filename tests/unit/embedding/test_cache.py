from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.hashing_embedder import HashingEmbedder

from memcore.embedding.batching import BatchEmbedder, CachedEmbedder
from memcore.embedding.protocol import EmbedderKind
from memcore.errors import MemoryEmbeddingError


class CountingEmbedder(BatchEmbedder):
    """Tells what it was asked; its questions have other vectors than its documents."""

    name, kind, dims = "counting", EmbedderKind.STATIC, 8

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fails = False

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]:
        self.asked.append(tuple(texts))
        if self.fails:
            raise MemoryEmbeddingError("down")
        rows = HashingEmbedder(dims=8).embed_documents(texts)
        return -rows if is_query else rows


def test_a_text_is_embedded_once_per_side() -> None:
    inner = CountingEmbedder()
    cached = CachedEmbedder(inner)
    first = cached.embed_documents(["a", "b", "a"])
    again = cached.embed_documents(["b", "c"])
    np.testing.assert_array_equal(first[1], again[0])
    np.testing.assert_array_equal(cached.embed_query("a"), -first[0])
    np.testing.assert_array_equal(cached.embed_query("a"), -first[0])
    assert inner.asked == [("a", "b"), ("c",), ("a",)]


def test_the_one_unused_for_longest_goes_first() -> None:
    inner = CountingEmbedder()
    cached = CachedEmbedder(inner, max_texts=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        cached.embed_query(text)
    assert inner.asked == [("a",), ("b",), ("c",), ("b",)]
    assert len(cached._kept) == 2


def test_a_failure_is_not_remembered() -> None:
    inner = CountingEmbedder()
    cached = CachedEmbedder(inner)
    inner.fails = True
    with pytest.raises(MemoryEmbeddingError):
        cached.embed_query("a")
    inner.fails = False
    assert cached.embed_query("a").any()


@given(st.lists(st.lists(st.text(max_size=3), max_size=6), max_size=8), st.integers(1, 5))
def test_whatever_is_asked_the_answer_is_that_of_the_embedder(batches: list[list[str]], size: int) -> None:
    cached = CachedEmbedder(CountingEmbedder(), max_texts=size)
    for batch in batches:
        np.testing.assert_array_equal(cached.embed_documents(batch), HashingEmbedder(dims=8).embed_documents(batch))
        assert len(cached._kept) <= size


def test_threads_fill_one_cache() -> None:
    cached = CachedEmbedder(CountingEmbedder(), max_texts=5)
    texts = [f"text {number % 9}" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(cached.embed_query, texts))
    np.testing.assert_array_equal(np.stack(rows), -HashingEmbedder(dims=8).embed_documents(texts))
    assert len(cached._kept) == 5
