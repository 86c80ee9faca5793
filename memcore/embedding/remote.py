"""Embeddings of a server that speaks OpenAI's API: OpenAI, Ollama, vLLM, LM Studio, text-embeddings-inference."""

import os
import random
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from http import HTTPStatus
from threading import Lock
from typing import Any

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import SecretStr

from memcore.bounded_http import AnswerError, AnswerTooSlowError, HttpResponse, ask, open_client
from memcore.clock import Clock, utc_now
from memcore.config.urls import masked
from memcore.deadline.breaker import Part, breaker_of
from memcore.embedding.batching import CachedEmbedder, ModelEmbedder, unit_rows
from memcore.embedding.protocol import Embedder, EmbedderKind, PromptPrefixes
from memcore.embedding.selection import SERVERS, EmbedderChoice, best_offered, tier_of
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryEmbeddingError, MemoryInputError
from memcore.event_loop import LoopThread

#: How long a server may take for one request; a batch of 64 texts takes a CPU server some seconds.
DEFAULT_TIMEOUT = timedelta(seconds=20)

#: Longest answer that is read, in bytes (32 MiB): 32 vectors of 32,768 numbers, each in 32 characters.
MAX_ANSWER_BYTES = 33_554_432

#: Requests for one call, the first one included; a job that still fails is retried by its queue, minutes later.
ATTEMPTS = 4

#: Pause before the second request; it doubles with each further one.
FIRST_PAUSE = timedelta(milliseconds=500)

#: Longest pause that is waited here, asked for or not: a job has a time limit, and its queue can wait longer.
LONGEST_PAUSE = timedelta(seconds=15)

#: Answers that another try may change, beside all from 500 on.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})

#: Answers that mean a wrong address, key or model.
_MISCONFIGURED = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.PAYMENT_REQUIRED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
    }
)


class _Line:
    """A process's connections, and the loop on which a request is bounded as a whole."""

    def __init__(self, url: str, *, key: str | None) -> None:
        self.pid = os.getpid()
        self.loop = LoopThread("memtend-embedding")
        self.client = open_client(url, key=key)

    def close(self) -> None:
        # A fork has neither the thread nor a right to the sockets.
        if self.pid == os.getpid():
            self.loop.run(self.client.aclose())
            self.loop.close()


class JsonPost:
    """A JSON client of one server; safe in several threads, and after a fork, where each process opens its own sockets.

    ``key`` is sent as a bearer token; it is in no error and no log, and a redirect is not followed with it.
    ``timeout`` holds for one request, from its first byte to the last of the answer.
    """

    def __init__(
        self,
        url: str,
        *,
        key: SecretStr | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        pause: Callable[[float], None] = time.sleep,
        clock: Clock = utc_now,
    ) -> None:
        self._url = url.rstrip("/")
        #: The address without passwords, for errors.
        self.shown_url = masked(self._url)
        self._key = key
        self._timeout = timeout
        self._pause = pause
        self._clock = clock
        self._breaker = breaker_of(Part.EMBEDDER, self._url)
        self._opening = Lock()
        self._line: _Line | None = None

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send the body, if there is one, and return the answer.

        Timeouts, lost connections, 429 and 5xx are tried again, after the pause that the server asks for if it does.
        Raises MemoryEmbeddingError when that is in vain, MemoryConfigError for 401, 403, 404 and the like, and
        MemoryInputError when the server refuses what was sent.
        """
        problem = ""
        for attempt in range(1, ATTEMPTS + 1):
            asked: float | None = None
            try:
                answer = self._answer(path, body)
            except MemoryConnectionError as error:
                raise MemoryEmbeddingError(str(error)) from None
            except AnswerTooSlowError as error:
                problem = str(error)
            except AnswerError as error:
                # Asked again it would answer the same.
                raise MemoryEmbeddingError(f"the embedding server at {self.shown_url}: {error}") from None
            except httpx.TransportError as error:
                # Its class alone: the text of some names the address with its password.
                problem = type(error).__name__
            except httpx.InvalidURL as error:
                raise MemoryConfigError(f"embedder_url: {self.shown_url} is no URL") from error
            else:
                if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    return self._parsed(answer)
                self._require_passing(answer.status)
                problem, asked = f"status {answer.status}", answer.asked_pause(now=self._clock())
            if attempt == ATTEMPTS or (asked or 0.0) > LONGEST_PAUSE.total_seconds():
                break
            self._pause(_backoff(attempt) if asked is None else asked)
        raise MemoryEmbeddingError(f"the embedding server at {self.shown_url} gives no answer ({problem})")

    def _answer(self, path: str, body: dict[str, Any] | None) -> HttpResponse:
        line, url = self._opened(), f"{self._url}{path}"
        method, content = ("GET", None) if body is None else ("POST", orjson.dumps(body))
        with self._breaker.call() as limit:
            within = self._timeout if limit is None else min(self._timeout, timedelta(seconds=limit))
            try:
                return line.loop.run(
                    ask(line.client, method, url, content=content, max_bytes=MAX_ANSWER_BYTES, within=within)
                )
            except (AnswerTooSlowError, httpx.TimeoutException):
                if limit is not None:
                    # The next attempt is refused.
                    self._breaker.timed_out()
                raise

    def _opened(self) -> "_Line":
        with self._opening:
            if self._line is None or self._line.pid != os.getpid():
                key = None if self._key is None else self._key.get_secret_value()
                self._line = _Line(self._url, key=key)
                # An embedder lives as long as its process or its test, and has no moment of its own to be closed.
                weakref.finalize(self, self._line.close)
            return self._line

    def _require_passing(self, status: int) -> None:
        if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        if status in _MISCONFIGURED or status < HTTPStatus.BAD_REQUEST:
            raise MemoryConfigError(
                f"the embedding server at {self.shown_url} answers {status}: check MEMTEND_EMBEDDER_URL, "
                "MEMTEND_EMBEDDER_API_KEY and memory.embedder.model"
            )
        # Its words are not repeated: servers quote the text that they refuse.
        raise MemoryInputError("texts", f"were refused by the embedding server with status {status}, see its log")

    def _parsed(self, answer: HttpResponse) -> Any:
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise MemoryEmbeddingError(f"the embedding server at {self.shown_url} answers with no JSON") from error


def _backoff(attempt: int) -> float:
    # Somewhere in the upper half: many workers that were refused together must not come back together.
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)).total_seconds()
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


#: Texts in one request; servers allow from 32 (text-embeddings-inference) to 2,048 (OpenAI).
MAX_INPUTS = 32

#: Characters of one text. No model on offer reads more than 32,000 tokens, about this much, and a request has a size.
MAX_CHARACTERS = 131_072


class OpenAiCompatibleEmbedder(ModelEmbedder):
    """Embeds texts with a model on a server; its name there is the embedder's, for a model has one set of vectors.

    ``dims`` left out are measured by one request when this is built, which raises what JsonPost.ask raises.
    """

    kind = EmbedderKind.OPENAI_COMPATIBLE

    def __init__(
        self,
        server: JsonPost,
        *,
        model: str,
        dims: int | None = None,
        prompt_prefixes: PromptPrefixes | None = None,
    ) -> None:
        self._server = server
        self._model = model
        super().__init__(model, prompt_prefixes=prompt_prefixes, batch_texts=MAX_INPUTS, dims=dims)

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]:
        for place, text in enumerate(texts):
            if len(text) > MAX_CHARACTERS:
                raise MemoryInputError(
                    f"texts[{place}]", f"has {len(text)} characters; the embedder takes {MAX_CHARACTERS}"
                )
        return super()._embed(texts, is_query=is_query)

    def _run(self, texts: list[str]) -> NDArray[np.float32]:
        answer = self._server.ask("/embeddings", {"model": self._model, "input": texts, "encoding_format": "float"})
        try:
            rows = _rows(answer, expected=len(texts))
        except (KeyError, TypeError, ValueError) as error:
            raise MemoryEmbeddingError(
                f"the embedding server at {self._server.shown_url} gives no usable vectors for {len(texts)} texts"
            ) from error
        if self.dims not in {0, rows.shape[1]}:
            raise MemoryConfigError(
                f"memory.embedder.dims: {self.dims} expected, and {self._model} makes {rows.shape[1]}: "
                "correct the number, or the model's name"
            )
        return unit_rows(rows, name=self._model)


def _rows(answer: Any, *, expected: int) -> NDArray[np.float32]:
    given = answer["data"]
    # Servers may answer out of order; each vector says which text it belongs to.
    by_place = {each["index"]: each["embedding"] for each in given}
    if len(given) != expected or sorted(by_place) != list(range(expected)):
        raise ValueError("not one vector for each text")
    rows = np.asarray([by_place[place] for place in range(expected)], dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] == 0:  # noqa: PLR2004  # texts, dimensions
        raise ValueError("not a list of numbers for each text")
    return rows


def remote_embedder(choice: EmbedderChoice) -> Embedder:
    """Return the embedder of a server, with a cache; raises what :func:`create_embedder` does."""
    url = choice.url or SERVERS[choice.provider]
    if url is None:
        raise MemoryConfigError(f"embedder: {choice.provider!r} needs an address: set MEMTEND_EMBEDDER_URL")
    server = JsonPost(url, key=choice.api_key)
    model = choice.model or _chosen_model(choice, server)
    return CachedEmbedder(
        OpenAiCompatibleEmbedder(server, model=model, dims=choice.dims, prompt_prefixes=choice.prompt_prefixes)
    )


def _chosen_model(choice: EmbedderChoice, server: JsonPost) -> str:
    answer = server.ask("/models")
    try:
        offered = [str(each["id"]) for each in answer["data"]]
    except (KeyError, TypeError) as error:
        raise MemoryEmbeddingError(
            f"the embedding server at {server.shown_url} lists its models in no known form"
        ) from error
    found = best_offered(tier_of(choice.provider, has_gpu=choice.has_gpu), offered)
    if found is None:
        raise MemoryConfigError(
            f"memory.embedder.model: {server.shown_url} offers no model that is known to do well on memories: name one"
        )
    return found
