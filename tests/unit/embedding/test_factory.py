import numpy as np
import pytest
from embedders import HashingEmbedder

from memcore.embedding.factory import EMBEDDER_NAMES, create_embedder
from memcore.embedding.protocol import Embedder
from memcore.errors import MemoryConfigError


@pytest.fixture(params=[*EMBEDDER_NAMES, "hashing"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return HashingEmbedder() if request.param == "hashing" else create_embedder(request.param)


def test_every_embedder_keeps_the_contract(embedder: Embedder) -> None:
    texts = ["the queue is full", "", "the queue is full", "a tidy garden"]
    rows = embedder.embed_documents(texts)
    assert rows.shape == (4, embedder.dims)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 0, 1, 1], atol=1e-5)
    np.testing.assert_array_equal(rows[0], rows[2])
    np.testing.assert_array_equal(rows[3], embedder.embed_query(texts[3]))
    assert (
        embedder.embed_query("a queue that is full") @ rows[0] > embedder.embed_query("a queue that is full") @ rows[3]
    )
    assert embedder.embed_documents([]).shape == (0, embedder.dims)


def test_the_default_is_the_tempered_table() -> None:
    assert create_embedder().name == "wordllama-256-tempered"
    assert create_embedder("static-mean").name == "wordllama-256-mean"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(MemoryConfigError, match="'word2vec' is unknown, choose one of static, static-mean"):
        create_embedder("word2vec")
