from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from memcore.embedding.protocol import Embedder
from memcore.errors import MemoryInputError
from memcore.ledger.collections import EmbedderIdentity

#: Rounding in a model's batches; two different texts differ by far more.
ROUNDING = 1e-5

TEXTS = [
    "The payment service retries three times before it gives up.",
    "a tidy garden",
    "東京で会議があります \N{SMILING FACE WITH SUNGLASSES}",
    "x",
    "half a pair \ud83d of surrogates",
    "null \0 and \x1b escape",
    "retry_count = 3  # raised\n\tsecond line",
    "word " * 20_000,
    "unbroken" * 20_000,
]


def test_every_text_gets_a_row_of_unit_length(embedder: Embedder) -> None:
    short = [text for text in TEXTS if len(text) < 110_000]
    rows = embedder.embed_documents(short)
    assert rows.shape == (len(short), embedder.dims)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=ROUNDING)


def test_a_text_of_any_length_is_read_or_refused_and_never_hangs(embedder: Embedder) -> None:
    for text in TEXTS[-2:]:
        with suppress(MemoryInputError):
            assert np.linalg.norm(embedder.embed_query(text)) == pytest.approx(1.0, abs=ROUNDING)


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_text_fails_nobody(embedder: Embedder, blank: str) -> None:
    rows = embedder.embed_documents([blank, "a tidy garden"])
    length = float(np.linalg.norm(rows[0]))
    assert length == pytest.approx(0.0) or length == pytest.approx(1.0, abs=ROUNDING)
    np.testing.assert_allclose(rows[1], embedder.embed_documents(["a tidy garden"])[0], atol=ROUNDING)


def test_the_empty_text_is_near_nothing(embedder: Embedder) -> None:
    assert not embedder.embed_query("").any()
    assert not embedder.embed_documents([""]).any()


def test_a_batch_is_its_texts_one_by_one(embedder: Embedder) -> None:
    texts = [f"{text[:200]} {number}" for number, text in enumerate(TEXTS * 3)]
    alone = np.stack([embedder.embed_documents([text])[0] for text in texts])
    np.testing.assert_allclose(embedder.embed_documents(texts), alone, atol=ROUNDING)


def test_the_order_of_the_texts_is_the_order_of_the_rows(embedder: Embedder) -> None:
    texts = ["garden", "payment " * 40, "queue full", "tea"]
    rows = embedder.embed_documents(texts)
    np.testing.assert_allclose(embedder.embed_documents(texts[::-1])[::-1], rows, atol=ROUNDING)


def test_the_same_text_gets_the_same_vector(embedder: Embedder) -> None:
    first, second = (embedder.embed_documents(["the queue is full", "tea", "the queue is full"]) for _ in range(2))
    np.testing.assert_allclose(first, second, atol=ROUNDING)
    np.testing.assert_allclose(first[0], first[2], atol=ROUNDING)


def test_no_texts_have_no_rows(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, embedder.dims)


def test_a_question_finds_its_document(embedder: Embedder) -> None:
    near, far = embedder.embed_documents(["the queue is full", "a tidy garden"])
    asked = embedder.embed_query("a queue that is full")
    assert asked.shape == (embedder.dims,)
    assert asked @ near > asked @ far


def test_what_is_returned_belongs_to_the_caller(embedder: Embedder) -> None:
    before = embedder.embed_query("a tidy garden").copy()
    embedder.embed_query("a tidy garden")[:] = 9.0
    embedder.embed_documents(["a tidy garden"])[:] = 9.0
    np.testing.assert_allclose(embedder.embed_query("a tidy garden"), before, atol=ROUNDING)


def test_threads_share_one_embedder(embedder: Embedder) -> None:
    texts = [f"question {number} about the garden" for number in range(24)]
    expected = np.stack([embedder.embed_query(text) for text in texts])
    with ThreadPoolExecutor(8) as pool:
        queries = list(pool.map(embedder.embed_query, texts))
        documents = list(pool.map(lambda text: embedder.embed_documents([text, "tea"])[0], texts))
    np.testing.assert_allclose(np.stack(queries), expected, atol=ROUNDING)
    np.testing.assert_allclose(np.stack(documents), expected, atol=ROUNDING)


def test_its_identity_can_be_recorded(embedder: Embedder) -> None:
    identity = EmbedderIdentity.of(embedder, text_form="{content}")
    assert EmbedderIdentity.model_validate_json(identity.model_dump_json()) == identity
