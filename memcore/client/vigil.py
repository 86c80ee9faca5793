"""Waiting for jobs: which are still out, and how long to sleep until the next look."""

import time
from collections.abc import Callable, Sequence

from memcore.client.receipts import JobStatus

#: Seconds between two looks at the outcomes that a caller waits for.
POLL_SECONDS = 0.05


class Vigil:
    """Keep count of the jobs that have not finished; whoever waits does the looking and the sleeping.

    Args:
        job_ids: whose end is awaited; one given twice is awaited once.
        timeout_seconds: how long in all.
        clock: seconds that only grow.
    """

    def __init__(
        self, job_ids: Sequence[str], *, timeout_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = dict.fromkeys(job_ids)
        self._count = len(self._out)
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._until = clock() + timeout_seconds

    @property
    def waiting(self) -> tuple[str, ...]:
        """The jobs that are still out."""
        return tuple(self._out)

    def strike(self, finished: Sequence[JobStatus]) -> Sequence[JobStatus]:
        """Take these jobs off the list and return them."""
        for status in finished:
            self._out.pop(status.job_id, None)
        return finished

    def pause(self) -> float:
        """Return the seconds to sleep until the next look; raises TimeoutError when time is up."""
        if self._clock() > self._until:
            left, limit = len(self._out), self._timeout_seconds
            raise TimeoutError(f"{left} of {self._count} jobs had not finished after {limit:g} seconds")
        return POLL_SECONDS
