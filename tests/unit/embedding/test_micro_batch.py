from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import numpy as np
import pytest
from numpy.typing import NDArray
from support.hashing_embedder import HashingEmbedder

from memcore.embedding.batching import BatchEmbedder, MicroBatchedEmbedder
from memcore.embedding.protocol import EmbedderKind
from memcore.errors import MemoryEmbeddingError, MemoryInputError

#: Far longer than a test: a batch that nothing but its number of texts closes.
FOR_EVER = timedelta(minutes=5)


class FussyEmbedder(BatchEmbedder):
    """Refuses a batch with a bad text, and all when it is down."""

    name, kind, dims = "fussy", EmbedderKind.STATIC, 8

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.is_down = False
        self.goes_on = Event()
        self.goes_on.set()

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]:  # noqa: ARG002  # both sides are one here
        self.asked.append(list(texts))
        self.goes_on.wait(60)
        if self.is_down:
            raise MemoryEmbeddingError("the server is down")
        if "bad" in texts:
            raise MemoryInputError("texts", "were refused")
        return HashingEmbedder(dims=8).embed_documents(texts)


def asked_together(batched: MicroBatchedEmbedder, texts: Sequence[str]) -> list[Future[NDArray[np.float32]]]:
    with ThreadPoolExecutor(len(texts)) as pool:
        return [pool.submit(batched.embed_query, text) for text in texts]


def test_callers_at_the_same_moment_share_one_run() -> None:
    inner = FussyEmbedder()
    texts = ["one", "two", "three", "four"]
    found = asked_together(MicroBatchedEmbedder(inner, max_texts=4, wait=FOR_EVER), texts)
    assert [sorted(each) for each in inner.asked] == [sorted(texts)]
    rows = np.stack([each.result() for each in found])
    np.testing.assert_array_equal(rows, HashingEmbedder(dims=8).embed_documents(texts))


def test_one_caller_alone_waits_no_longer_than_said() -> None:
    inner = FussyEmbedder()
    batched = MicroBatchedEmbedder(inner, max_texts=4, wait=timedelta(0))
    np.testing.assert_array_equal(batched.embed_query("one"), HashingEmbedder(dims=8).embed_query("one"))
    assert inner.asked == [["one"]]


def test_a_caller_with_enough_texts_goes_alone() -> None:
    inner = FussyEmbedder()
    batched = MicroBatchedEmbedder(inner, max_texts=2, wait=FOR_EVER)
    assert batched.embed_documents(["one", "two"]).shape == (2, 8)
    assert batched.embed_documents([]).shape == (0, 8)
    assert inner.asked == [["one", "two"], []]


def test_documents_and_questions_are_not_mixed() -> None:
    inner = FussyEmbedder()
    batched = MicroBatchedEmbedder(inner, max_texts=2, wait=FOR_EVER)
    with ThreadPoolExecutor(4) as pool:
        for embed, texts in ((batched.embed_query, "ab"), (lambda t: batched.embed_documents([t]), "cd")):
            for text in texts:
                pool.submit(embed, text)
    assert sorted(map(sorted, inner.asked)) == [["a", "b"], ["c", "d"]]


def test_a_bad_text_fails_for_the_one_who_sent_it() -> None:
    inner = FussyEmbedder()
    found = asked_together(MicroBatchedEmbedder(inner, max_texts=3, wait=FOR_EVER), ["one", "bad", "three"])
    np.testing.assert_array_equal(found[0].result(), HashingEmbedder(dims=8).embed_query("one"))
    np.testing.assert_array_equal(found[2].result(), HashingEmbedder(dims=8).embed_query("three"))
    with pytest.raises(MemoryInputError):
        found[1].result()


def test_an_embedder_that_is_down_is_asked_once_for_all() -> None:
    inner = FussyEmbedder()
    inner.is_down = True
    found = asked_together(MicroBatchedEmbedder(inner, max_texts=3, wait=FOR_EVER), ["one", "two", "three"])
    for each in found:
        with pytest.raises(MemoryEmbeddingError, match="is down"):
            each.result()
    assert len(inner.asked) == 1


def test_a_batch_that_runs_keeps_nobody_waiting_for_the_next() -> None:
    inner = FussyEmbedder()
    batched = MicroBatchedEmbedder(inner, max_texts=2, wait=FOR_EVER)
    inner.goes_on.clear()
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(batched.embed_query, text) for text in ("a", "b", "c", "d")]
        while len(inner.asked) < 2:
            assert not any(each.done() for each in found)
        inner.goes_on.set()
        assert all(each.result(60).any() for each in found)
    assert sorted(map(len, inner.asked)) == [2, 2]
