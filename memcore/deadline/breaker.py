"""Circuit breakers: the first time-out of a part spares every other reader of the process the wait."""

import threading
import time
from collections.abc import Callable
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

    def limit(self) -> float | None:
        """Return the seconds that this call may take, None without a deadline.

        Raises MemoryConnectionError, which names the part, where it did not answer a moment ago.
        """
        seconds = part_limit()
        if seconds is None:
            return None
        with self._lock:
            if self._retry_at is not None:
                now = self._clock()
                if now < self._retry_at:
                    raise MemoryConnectionError(f"the {self._part} did not answer in time", part=self._part)
                # This caller tries; one that dies keeps the others away no longer than its call may take.
                self._retry_at = now + seconds + self._pause
        return seconds

    def answered(self) -> None:
        """Let every call through."""
        if self._retry_at is not None:
            with self._lock:
                self._retry_at = None

    def timed_out(self) -> None:
        """Refuse calls until the pause is over."""
        with self._lock:
            self._retry_at = self._clock() + self._pause


_breakers: dict[tuple[Part, str], CircuitBreaker] = {}


def breaker_of(part: Part, address: str) -> CircuitBreaker:
    """Return the circuit breaker that all requests of this process share for a part at an address."""
    return _breakers.setdefault((part, address), CircuitBreaker(part))
