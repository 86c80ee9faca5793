"""The deadline of a reading request, as every part beneath it finds it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from memcore.errors import MemoryConnectionError

#: Seconds that a reading request takes at most, where no policy says otherwise.
DEADLINE_SECONDS = 5.0

#: Share of a deadline for which one part is waited for: two parts may be away, and the answer is still in time.
_SHARE = 0.4


class _Deadline:
    """How long one part is waited for, and the time limit of the whole request, where it has one."""

    def __init__(self, seconds: float, timeout: asyncio.Timeout | None) -> None:
        self.seconds = seconds
        self.timeout = timeout


_deadline: ContextVar[_Deadline | None] = ContextVar("_deadline", default=None)


def part_limit() -> float | None:
    """Return the seconds that a request waits for one part, None without a deadline."""
    found = _deadline.get()
    return None if found is None else found.seconds * _SHARE


@contextmanager
def limited_parts(seconds: float = DEADLINE_SECONDS) -> Iterator[None]:
    """Limit how long the block waits for each part, not the block itself; for work whose length depends on its data."""
    token = _deadline.set(_deadline.get() or _Deadline(seconds, None))
    try:
        yield
    finally:
        _deadline.reset(token)


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Limit the block, and how long it waits for each part. Raises MemoryConnectionError where its time is over.

    Inside another such block it changes nothing: a request has one deadline.
    """
    outer = _deadline.get()
    if outer is not None and outer.timeout is not None:
        yield
        return
    timeout = asyncio.timeout(seconds)
    token = _deadline.set(_Deadline(seconds, timeout))
    try:
        async with timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        raise MemoryConnectionError(f"no answer within {seconds:g} s: see `memtend doctor`") from None
    finally:
        _deadline.reset(token)


def call_limit() -> float | None:
    """Return the seconds that a call may wait for its turn and its answer together, None where nothing limits them."""
    found = _deadline.get()
    return None if found is None or found.timeout is None else found.seconds


@contextmanager
def without_deadline() -> Iterator[None]:
    """Wait for parts as long as a write does, as for a collection that the first reader of all has to make."""
    token = _deadline.set(None)
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def unlimited() -> Iterator[None]:
    """Stop the clock of the request's deadline, as for a language model, which has a time limit of its own."""
    found = _deadline.get()
    timeout = None if found is None else found.timeout
    if found is None or timeout is None:
        yield
        return
    timeout.reschedule(None)
    try:
        yield
    finally:
        timeout.reschedule(asyncio.get_running_loop().time() + found.seconds)


class HasDeadline(Protocol):
    """Knows the deadline of its calls."""

    @property
    def deadline_seconds(self) -> float:
        """Seconds that a reading call takes at most."""
        ...


_Call = TypeVar("_Call", bound=Callable[..., Coroutine[Any, Any, Any]])


def reading(call: _Call) -> _Call:
    """Give a reading method the deadline of its object."""

    @wraps(call)
    async def limited(self: HasDeadline, /, *args: Any, **kwargs: Any) -> Any:
        async with deadline(self.deadline_seconds):
            return await call(self, *args, **kwargs)

    return cast("_Call", limited)
