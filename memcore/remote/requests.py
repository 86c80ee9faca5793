"""Requests to ``memtend serve``: how each is sent, repeated and read, for callers that wait and for coroutines."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from memcore.errors import (
    MemoryConfigError,
    MemoryConnectionError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.models.memory import NOT_UNICODE
from memcore.remote.problems import TOO_MANY, UNAVAILABLE, error_of
from memcore.telemetry import tracing

#: Seconds for one answer, and for a connection.
TIMEOUT_SECONDS, CONNECT_SECONDS = 30.0, 5.0

#: How often a request is sent at most, and how long all attempts wait together, in seconds.
ATTEMPTS, PATIENCE_SECONDS = 6, 20.0

#: The first pause before a request is sent again, and the longest, in seconds; each doubles the one before.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

#: Connections that are kept open, and that may be open at once.
_KEPT, _MOST = 10, 100

#: Statuses after which a request is sent again.
_PASSING: Final = frozenset({TOO_MANY, 502, UNAVAILABLE, 504})

Result = TypeVar("Result")
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Result]):
    """One request, and how its answer is read; sent twice, it does what it does once.

    Attributes:
        path: below the server's address, escaped.
        read: makes the result of the JSON of a successful answer.
        is_optional: whether an answer ``not_found`` is no error; ``read`` is then given None.
        arguments: what the caller calls parameters that have another name in the request.
        idempotency_key: by which the server knows a request that comes again.
        conditions: headers that say on what it is done.
        work_seconds: how long the server may work for it beside the time of one answer.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    read: Callable[[Any], Result]
    body: Mapping[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    is_optional: bool = False
    arguments: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    work_seconds: float = 0.0

    @property
    def headers(self) -> dict[str, str]:
        """Those of this request alone."""
        trace = tracing.current_context()
        headers = {**self.conditions, **({} if trace is None else {tracing.HEADER: trace})}
        return headers if self.idempotency_key is None else {**headers, "Idempotency-Key": self.idempotency_key}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server, and how to reach it.

    Attributes:
        url: with ``http`` or ``https``, and no user, query or fragment.
        key: ``mt_...``; None for a server that asks for none.
        timeout_seconds: for one answer.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        try:
            parts = httpx.URL(self.url)
        except httpx.InvalidURL:
            raise MemoryInputError("url", "is not an address such as http://127.0.0.1:8321") from None
        if parts.scheme not in {"http", "https"} or not parts.host:
            raise MemoryInputError("url", "must begin with http:// or https://, and name a host")
        if parts.userinfo or parts.query or parts.fragment:
            raise MemoryInputError("url", "must have no user, query or fragment; the key is an argument of its own")
        if self.timeout_seconds <= 0:
            raise MemoryInputError("timeout_seconds", "must be above 0")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and self.key.strip()):
            raise MemoryInputError("key", "must be the text that `memtend keys create` printed")

    def timeout(self, work_seconds: float = 0.0) -> httpx.Timeout:
        """Return how long an answer is waited for, of a server that works so long for it."""
        return httpx.Timeout(self.timeout_seconds + work_seconds, connect=min(CONNECT_SECONDS, self.timeout_seconds))

    def options(self) -> dict[str, Any]:
        """Return the options of an httpx client."""
        headers = {"Accept": "application/json"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return {
            "base_url": self.url.rstrip("/"),
            "headers": headers,
            "timeout": self.timeout(),
            "limits": httpx.Limits(max_connections=_MOST, max_keepalive_connections=_KEPT),
            # An address that answers with another is not the one that was named; the key must not follow.
            "follow_redirects": False,
        }


class Attempts:
    """The attempts at one request: says after each failure how long to wait, or raises what the caller gets.

    Args:
        dice: spreads the pauses of many engines after one failure.
    """

    def __init__(self, address: Address, *, dice: random.Random) -> None:
        self._address = address
        self._dice = dice
        self._made, self._waited = 0, 0.0

    def after_error(self, error: httpx.HTTPError) -> float:
        """Return the pause after a failed connection. Raises MemoryConnectionError when there is no further attempt."""
        pause = self._pause(None)
        if pause is None:
            raise MemoryConnectionError(
                f"{self._address.url} cannot be reached ({type(error).__name__}); try again later"
            ) from error
        return pause

    def after(self, response: httpx.Response) -> float | None:
        """Return the pause after an answer that may be another one later, None for an answer to read or to raise."""
        return self._pause(response.headers.get("Retry-After")) if response.status_code in _PASSING else None

    def _pause(self, wanted: str | None) -> float | None:
        self._made += 1
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._made - 1))
        pause = self._dice.uniform(longest / 2, longest)
        if wanted is not None and wanted.isdigit():
            pause += int(wanted)
        if self._made >= ATTEMPTS or self._waited + pause > PATIENCE_SECONDS:
            return None
        self._waited += pause
        return pause


def result_of(call: Call[Result], response: httpx.Response) -> Result:
    """Return what an answer says; raises the error that it stands for."""
    if response.is_success:
        with of_this_release():
            return call.read(response.json() if response.content else None)
    if response.is_redirect:
        raise MemoryConfigError("url: the server sends requests on to another address; name that one")
    if call.is_optional and response.status_code == httpx.codes.NOT_FOUND:
        error = error_of(response)
        if error.domain_code == "not_found":
            return call.read(None)
        raise error
    raise _named(error_of(response), call.arguments)


@contextmanager
def of_this_release() -> Iterator[None]:
    """Raise MemoryConfigError where an answer cannot be read."""
    try:
        yield
    except (ValueError, KeyError, TypeError):
        raise MemoryConfigError("url: the server answers in another form than this release of memtend reads") from None


@contextmanager
def breaking_off(address: Address) -> Iterator[None]:
    """Raise MemoryConnectionError where the events of an answer break off."""
    try:
        yield
    except httpx.HTTPError as error:
        raise MemoryConnectionError(f"{address.url} has broken off ({type(error).__name__}); ask again") from error


def request_of(client: httpx.Client | httpx.AsyncClient, call: Call[Any], address: Address) -> httpx.Request:
    """Return the request of a call. Raises MemoryInputError where a text has half a character in it."""
    try:
        return client.build_request(
            call.method,
            call.path,
            json=call.body,
            params=call.params,
            headers=call.headers,
            timeout=address.timeout(call.work_seconds),
        )
    except UnicodeEncodeError:
        raise MemoryInputError("request", NOT_UNICODE) from None


class EventReader:
    """Reads the events of an answer, line by line: of each its name and its JSON."""

    def __init__(self) -> None:
        self._name, self._data = "", list[str]()

    def read(self, line: str) -> tuple[str, Any] | None:
        """Return an event where this line ends one. Raises MemoryConfigError."""
        field, _, value = line.partition(":")
        if field == "event":
            self._name = value.strip()
        elif field == "data":
            self._data.append(value)
        elif not line and self._data:
            name, data = self._name, "\n".join(self._data)
            self._name, self._data = "", []
            with of_this_release():
                return name, json.loads(data)
        return None


def _named(error: MemoryError, arguments: Mapping[str, str]) -> MemoryError:
    """Return an error that names a wrong argument as the caller does."""
    if not isinstance(error, MemoryInputError):
        return error
    first, dot, rest = error.field.partition(".")
    return MemoryInputError(f"{arguments.get(first, first)}{dot}{rest}", error.problem)


def known(model: type[Model], given: Mapping[str, Any]) -> Model:
    """Return a model of what an answer says; fields of a later release are left out.

    Raises ValueError when it says something else.
    """
    try:
        return model.model_validate(dict(given), extra="ignore")
    except (ValidationError, MemoryInputError) as error:
        raise ValueError(type(error).__name__) from None
