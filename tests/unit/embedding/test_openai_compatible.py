from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from pydantic import SecretStr
from support.embedding_server import Answer, EmbeddingServer, body, embedding_server, status, vectors
from support.hashing_embedder import HashingEmbedder

from memcore.deadline.limits import limited_parts
from memcore.embedding import remote
from memcore.embedding.protocol import EmbedderKind, PromptPrefixes
from memcore.embedding.remote import ATTEMPTS, JsonPost, OpenAiCompatibleEmbedder
from memcore.errors import MemoryConfigError, MemoryEmbeddingError, MemoryInputError

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


class Pauses(list[float]):
    """Remembers the pauses instead of waiting."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


def reached(server: EmbeddingServer, pauses: Pauses, *, timeout: timedelta = timedelta(seconds=60)) -> JsonPost:
    return JsonPost(server.url, key=SecretStr("the-key"), timeout=timeout, pause=pauses, clock=lambda: NOW)


def made(server: EmbeddingServer, pauses: Pauses) -> OpenAiCompatibleEmbedder:
    return OpenAiCompatibleEmbedder(reached(server, pauses), model="stub", dims=16)


def test_the_length_is_measured_when_it_is_not_said(server: EmbeddingServer, pauses: Pauses) -> None:
    embedder = OpenAiCompatibleEmbedder(reached(server, pauses), model="stub")
    assert (embedder.name, embedder.kind, embedder.dims) == ("stub", EmbedderKind.OPENAI_COMPATIBLE, 16)
    assert len(server.asked) == 1


def test_a_length_that_is_said_costs_no_request(server: EmbeddingServer, pauses: Pauses) -> None:
    assert made(server, pauses).dims == 16
    assert server.asked == []


def test_texts_are_sent_in_requests_of_the_size_that_the_server_takes(
    server: EmbeddingServer, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MAX_INPUTS", 3)
    texts = [f"text {number}" for number in range(7)]
    rows = made(server, pauses).embed_documents(texts)
    assert [len(asked) for asked in server.asked] == [3, 3, 1]
    np.testing.assert_allclose(rows, HashingEmbedder(dims=16).embed_documents(texts), atol=1e-6)
    assert set(server.keys) == {"Bearer the-key"}


def test_blank_texts_are_not_sent(server: EmbeddingServer, pauses: Pauses) -> None:
    rows = made(server, pauses).embed_documents(["", "one", " \n"])
    assert server.asked == [["one"]]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [0, 1, 0], atol=1e-6)


def test_each_side_has_its_instruction(server: EmbeddingServer, pauses: Pauses) -> None:
    prompt_prefixes = PromptPrefixes(query_prefix="query: ", document_prefix="passage: ")
    embedder = OpenAiCompatibleEmbedder(reached(server, pauses), model="e5", dims=16, prompt_prefixes=prompt_prefixes)
    embedder.embed_documents(["tea"])
    embedder.embed_query("tea")
    assert server.asked == [["passage: tea"], ["query: tea"]]
    assert embedder.name == "e5+q='query: '+d='passage: '"


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(server: EmbeddingServer, pauses: Pauses, code: int) -> None:
    server.script = [status(code), status(code)]
    assert np.linalg.norm(made(server, pauses).embed_query("tea")) == pytest.approx(1.0)
    assert len(server.asked) == 3
    assert len(pauses) == 2
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0


@pytest.mark.parametrize(
    ("asked", "pause"), [("3", 3.0), ("0", 0.0), ("Sun, 01 Mar 2026 12:00:07 GMT", 7.0), ("-5", 0.0)]
)
def test_the_server_says_how_long_to_wait(server: EmbeddingServer, pauses: Pauses, asked: str, pause: float) -> None:
    server.script = [status(429, Retry_After=asked)]
    made(server, pauses).embed_query("tea")
    assert pauses == [pause]


def test_a_pause_without_sense_is_replaced_by_our_own(server: EmbeddingServer, pauses: Pauses) -> None:
    server.script = [status(503, Retry_After="soon")]
    made(server, pauses).embed_query("tea")
    assert 0.25 <= pauses[0] <= 0.5


def test_a_long_pause_is_left_to_the_queue(server: EmbeddingServer, pauses: Pauses) -> None:
    server.script = [status(429, Retry_After="3600")]
    with pytest.raises(MemoryEmbeddingError, match="status 429") as refusal:
        made(server, pauses).embed_query("tea")
    assert refusal.value.is_retryable
    assert (len(server.asked), pauses) == (1, [])


def test_a_server_that_stays_down_is_asked_a_few_times(server: EmbeddingServer, pauses: Pauses) -> None:
    server.usual = status(500)
    with pytest.raises(MemoryEmbeddingError, match="status 500"):
        made(server, pauses).embed_documents(["a secret text"])
    assert len(server.asked) == ATTEMPTS


@pytest.mark.parametrize("code", [301, 401, 403, 404])
def test_a_wrong_key_address_or_model_is_not_tried_again(server: EmbeddingServer, pauses: Pauses, code: int) -> None:
    server.usual = status(code, Location=server.url)
    with pytest.raises(MemoryConfigError, match=f"answers {code}: check MEMTEND_EMBEDDER_URL"):
        made(server, pauses).embed_query("tea")
    assert len(server.asked) == 1


@pytest.mark.parametrize("code", [400, 413, 422])
def test_refused_texts_are_not_tried_again(server: EmbeddingServer, pauses: Pauses, code: int) -> None:
    server.usual = status(code)
    with pytest.raises(MemoryInputError, match=f"status {code}") as refusal:
        made(server, pauses).embed_query("a secret text")
    assert len(server.asked) == 1
    assert "secret" not in str(refusal.value)


def test_a_read_with_a_deadline_waits_once_for_a_server_that_hangs_and_the_next_not_at_all(
    server: EmbeddingServer, pauses: Pauses
) -> None:
    embedder = made(server, pauses)
    server.goes_on.clear()
    with limited_parts(0.5):
        for _ in range(3):
            with pytest.raises(MemoryEmbeddingError):
                embedder.embed_query("what is known?")
    assert len(server.asked) <= 1
    server.goes_on.set()
    # What has no deadline, such as a store, is sent all the same.
    assert embedder.embed_query("what is known?").shape == (16,)


def test_a_server_that_hangs_is_given_up(server: EmbeddingServer, pauses: Pauses) -> None:
    post = reached(server, pauses, timeout=timedelta(milliseconds=50))
    server.goes_on.clear()
    with pytest.raises(MemoryEmbeddingError, match=r"\(no whole answer within 0\.05 s\)"):
        OpenAiCompatibleEmbedder(post, model="stub", dims=16).embed_query("tea")
    assert len(pauses) == ATTEMPTS - 1


def test_a_server_that_is_not_there_is_named_without_its_password(pauses: Pauses) -> None:
    post = JsonPost("http://user:hidden@127.0.0.1:1/v1", key=SecretStr("the-key"), pause=pauses)
    with pytest.raises(MemoryEmbeddingError, match=r"http://\*\*\*@127\.0\.0\.1:1/v1.*ConnectError") as refusal:
        OpenAiCompatibleEmbedder(post, model="stub")
    assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(body(b"<html>"), id="no JSON"),
        pytest.param(body({"data": []}), id="no vectors"),
        pytest.param(body({}), id="no data"),
        pytest.param(body([]), id="a list"),
        pytest.param(lambda texts: (200, {}, vectors(texts[:1])), id="too few"),
        pytest.param(lambda texts: (200, {}, vectors([*texts, "more"])), id="too many"),
        pytest.param(body({"data": [{"index": 0, "embedding": [1.0]}] * 2}), id="one twice"),
        pytest.param(
            body({"data": [{"index": 0, "embedding": [1.0, 2.0]}, {"index": 1, "embedding": [1.0]}]}), id="ragged"
        ),
        pytest.param(body({"data": [{"index": i, "embedding": "AAAA"} for i in range(2)]}), id="base64"),
        pytest.param(body({"data": [{"index": i, "embedding": []} for i in range(2)]}), id="empty"),
        pytest.param(body(b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1]}]}'), id="inf"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error(server: EmbeddingServer, pauses: Pauses, answer: Answer) -> None:
    server.usual = answer
    with pytest.raises(MemoryEmbeddingError):
        made(server, pauses).embed_documents(["a", "b"])


def test_vectors_of_another_length_are_refused(server: EmbeddingServer, pauses: Pauses) -> None:
    server.usual = lambda texts: (200, {}, vectors(texts, dims=8))
    with pytest.raises(MemoryConfigError, match=r"memory\.embedder\.dims: 16 expected, and stub makes 8"):
        made(server, pauses).embed_query("tea")


def test_a_text_beyond_the_limit_is_refused_by_name_before_anything_is_sent(
    server: EmbeddingServer, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MAX_CHARACTERS", 10)
    embedder = made(server, pauses)
    with pytest.raises(MemoryInputError, match=r"texts\[1\]: has 11 characters; the embedder takes 10"):
        embedder.embed_documents(["short", "x" * 11])
    assert server.asked == []
