"""Requests to a model server over HTTP: one place for the key, the time limit and the retries."""

import os
import random
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from threading import Lock
from typing import Any

import httpx
import orjson
from pydantic import SecretStr

from memcore.bounded_http import Answer, AnswerError, AnswerTooSlowError, ask, open_client
from memcore.clock import Clock, utc_now
from memcore.config.endpoint import masked
from memcore.errors import MemoryConfigError, MemoryEmbeddingError, MemoryInputError
from memcore.loop_thread import LoopThread

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

    def __init__(self, *, key: str | None) -> None:
        self.pid = os.getpid()
        self.loop = LoopThread("memtend-embedding")
        self.client = open_client(key=key)

    def close(self) -> None:
        # A fork has neither the thread nor a right to the sockets.
        if self.pid == os.getpid():
            self.loop.run(self.client.aclose())
            self.loop.close()


class JsonPost:
    """Speak JSON with one server; safe in several threads, and after a fork, where each process opens its own sockets.

    Args:
        url: the base, such as ``https://api.openai.com/v1``.
        key: sent as a bearer token; it is in no error and no log, and a redirect is not followed with it.
        timeout: how long one request may take, from its first byte to the last of the answer.
        pause: waits so many seconds; for tests.
        clock: the time, for a Retry-After that is a date.
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
        self._key = key
        self._timeout = timeout
        self._pause = pause
        self._clock = clock
        self._opening = Lock()
        self._line: _Line | None = None

    @property
    def shown_url(self) -> str:
        """The address without passwords, for errors."""
        return masked(self._url)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send the body and return the answer.

        Timeouts, lost connections, 429 and 5xx are tried again, after the pause that the server asks for if it does.

        Raises:
            MemoryEmbeddingError: no good answer after the last try, a pause is asked for that is too long, or an answer
                is longer than is read.
            MemoryConfigError: the server answers 401, 403, 404 and the like.
            MemoryInputError: the server refuses what was sent.
        """
        return self._ask("POST", path, orjson.dumps(body))

    def get(self, path: str) -> Any:
        """Return what stands there; raises as post does."""
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, content: bytes | None) -> Any:
        problem = ""
        for attempt in range(1, ATTEMPTS + 1):
            asked: float | None = None
            try:
                answer = self._answer(method, path, content)
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
                problem, asked = f"status {answer.status}", self._asked_pause(answer)
            if attempt == ATTEMPTS or (asked or 0.0) > LONGEST_PAUSE.total_seconds():
                break
            self._pause(_backoff(attempt) if asked is None else asked)
        raise MemoryEmbeddingError(f"the embedding server at {self.shown_url} gives no answer ({problem})")

    def _answer(self, method: str, path: str, content: bytes | None) -> Answer:
        line = self._opened()
        url = f"{self._url}{path}"
        return line.loop.run(
            ask(line.client, method, url, content=content, max_bytes=MAX_ANSWER_BYTES, within=self._timeout)
        )

    def _opened(self) -> "_Line":
        with self._opening:
            if self._line is None or self._line.pid != os.getpid():
                self._line = _Line(key=None if self._key is None else self._key.get_secret_value())
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

    def _parsed(self, answer: Answer) -> Any:
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise MemoryEmbeddingError(f"the embedding server at {self.shown_url} answers with no JSON") from error

    def _asked_pause(self, answer: Answer) -> float | None:
        asked = answer.headers.get("Retry-After")
        if asked is None:
            return None
        try:
            return max(0.0, float(asked))
        except ValueError:
            pass
        try:
            until = parsedate_to_datetime(asked)
        except ValueError:
            return None
        return max(0.0, (_aware(until) - self._clock()).total_seconds())


def _backoff(attempt: int) -> float:
    # Somewhere in the upper half: many workers that were refused together must not come back together.
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)).total_seconds()
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
