"""Limits of requests: how many a key may send, how large their bodies may be, and which names their queries have."""

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memcore.deadline.limits import DEADLINE_SECONDS, limited_parts
from memcore.errors import MemoryInputError
from ops.http.problems import BodyTooLargeError, problem_response

#: Largest body of a request, in bytes (1 MiB): that of the largest job.
MAX_BODY_BYTES = 1_048_576

#: The same of the router, whose requests have pictures in them: what the models' servers take (32 MiB).
MAX_ROUTED_BYTES = 33_554_432

#: Where the router is.
ROUTER = "/router/"

#: Requests a second of one key, and how many it may send at once; far more than an engine needs for its agents.
RATE_PER_SECOND, BURST = 500.0, 1_000

#: Most keys whose rate is known; with more, those that are at rest are forgotten, which changes nothing for them.
_MOST_BUCKETS = 10_000

#: Methods that change nothing.
_READING = frozenset({"GET", "HEAD"})

#: More than an engine's read may take: a page of the console may have the ledger count for seconds.
_PAGE_SECONDS = 1.5 * DEADLINE_SECONDS

#: A whole number in a query.
_WHOLE = re.compile("-?[0-9]+")


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimiter:
    """A token bucket for each key, in the event loop of ``serve``; each process counts by itself.

    Args:
        rate: tokens a second, above 0.
        burst: tokens of a full bucket, at least 1.
        clock: seconds that only grow.
    """

    def __init__(
        self, *, rate: float = RATE_PER_SECOND, burst: int = BURST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, key: str) -> float:
        """Take a token for a request and return 0, or the seconds until there is one."""
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            self._drop_full(now)
            bucket = self._buckets[key] = _Bucket(float(self._burst), now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens < 1.0:
            return (1.0 - bucket.tokens) / self._rate
        bucket.tokens -= 1.0
        return 0.0

    def _drop_full(self, now: float) -> None:
        if len(self._buckets) >= _MOST_BUCKETS:
            until_full = self._burst / self._rate
            self._buckets = {key: each for key, each in self._buckets.items() if now - each.at < until_full}


class LimitWaits:
    """Middleware: no request that reads waits long for a store or a ledger that does not answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        is_read = scope.get("method") in _READING or scope.get("path", "").rstrip("/").endswith("/search")
        with limited_parts(_PAGE_SECONDS) if is_read else nullcontext():
            await self._app(scope, receive, send)


class LimitBody:
    """Middleware: refuses a body above the limit with 413, by its declared length or as it comes."""

    def __init__(self, app: ASGIApp, *, limit: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = max(self._limit, MAX_ROUTED_BYTES) if scope["path"].startswith(ROUTER) else self._limit
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > limit:
            await problem_response(BodyTooLargeError(limit))(scope, receive, send)
            return
        seen, is_too_large = 0, False

        async def receiving() -> Message:
            nonlocal seen, is_too_large
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                is_too_large = True
                raise error
            return message

        async def sending(message: Message) -> None:
            # The framework answers an error of reading by itself, with another status.
            if not is_too_large:
                await send(message)

        error = BodyTooLargeError(limit)
        try:
            await self._app(scope, receiving, sending)
        except BodyTooLargeError:
            is_too_large = True
        if is_too_large:
            await problem_response(error)(scope, receive, send)


async def checked_address(request: Request) -> None:
    """Refuse what no route takes: unknown names in a query, NUL in a path or a query, numbers that are not whole.

    Passed over, a misspelled filter would let a deletion take more than was asked for. A class of routes
    may have ``passed_over``: names that its clients send and that change nothing. Paths that are not in the document
    do nothing that a name could change: a redirect, or the answer that this is not supported.

    Raises MemoryInputError.
    """
    for name, value in (*request.path_params.items(), *request.query_params.multi_items()):
        if "\0" in value:
            # PostgreSQL keeps none: nothing has such a name.
            raise MemoryInputError(name, "must not contain the character NUL")
    given = request.query_params
    route = request.scope["route"]
    if not given or not isinstance(route, APIRoute) or not route.include_in_schema:
        return
    declared = {each.alias: each for each in get_flat_params(route.dependant) if isinstance(each.field_info, Query)}
    unknown = given.keys() - declared.keys() - getattr(route, "passed_over", frozenset())
    if unknown:
        raise MemoryInputError(min(unknown), "is no name that the query of this path may have")
    for name, value in given.multi_items():
        is_number = name in declared and declared[name].field_info.annotation is int
        if is_number and _WHOLE.fullmatch(value) is None:
            # The framework takes 1.0 and 1_0 for one, too.
            raise MemoryInputError(name, "must be a whole number, in digits alone")
