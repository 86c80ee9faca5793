"""Circuit breakers: the first time-out of a part spares every other reader of the process the wait."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from memcore.deadline.limits import part_limit
from memcore.errors import MemoryConnectionError

#: Seconds for which a part that did not answer is not asked.
PAUSE_SECONDS = 2.0


class Part(StrEnum):
    """A part of the installation that may be away."""

    STORE = "store"
    LEDGER = "ledger"
    BROKER = "broker"
    EMBEDDER = "embedder"


class CircuitBreaker:
    """Lets calls of a part through, until one with a deadline had no answer in time. Thread-safe.

    Once the pause is over, one caller tries the part; the others are still refused until it has answered.
    """

    def __init__(
        self, part: Part, *, pause: float = PAUSE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._part = part
        self._pause = pause
        self._clock = clock
        self._lock = threading.Lock()
        #: When a caller may try the part again; None while it answers.
        self._retry_at: float | None = None
        #: Marks the caller that tries it; None once it had no answer in time.
        self._trial: object | None = None

    @contextmanager
    def call(self) -> Iterator[float | None]:
        """Yield the seconds that this call may take, None without a deadline.

        A call that had no answer in time says so inside, with ``timed_out``. Every other end is one, an error too: a
        part that refuses at once keeps nobody waiting.

        Raises MemoryConnectionError, which names the part, where it did not answer a moment ago.
        """
        seconds = part_limit()
        trial = None if seconds is None else self._admit(seconds)
        try:
            yield seconds
        except BaseException as error:
            with self._lock:
                # Unless somebody, here or in another thread, had no answer in time since.
                if trial is not None and self._trial is trial:
                    # Who is interrupted has learnt nothing: the next caller tries.
                    self._retry_at = None if isinstance(error, Exception) else self._clock()
            raise
        if self._retry_at is not None:
            with self._lock:
                self._retry_at = None

    def _admit(self, seconds: float) -> object | None:
        """Return what marks this caller as the one that tries a part that was away, None where it is not away."""
        with self._lock:
            if self._retry_at is None:
                return None
            now = self._clock()
            if now < self._retry_at:
                raise MemoryConnectionError(f"the {self._part} did not answer in time", part=self._part)
            # One that dies keeps the others away no longer than its call may take.
            self._retry_at = now + seconds + self._pause
            self._trial = object()
            return self._trial

    def timed_out(self) -> None:
        """Refuse calls until the pause is over."""
        with self._lock:
            self._retry_at, self._trial = self._clock() + self._pause, None


_breakers: dict[tuple[Part, str], CircuitBreaker] = {}


def breaker_of(part: Part, address: str) -> CircuitBreaker:
    """Return the circuit breaker that all requests of this process share for a part at an address."""
    return _breakers.setdefault((part, address), CircuitBreaker(part))
