"""Redelivered jobs of dead workers: they run again a limited number of times, and from the second time one at a time.

A broker redelivers a message when its worker died with it. Nobody can tell whether the job killed the worker or ran
beside the one that did: in a pool of threads, dozens die together. So the first redelivery runs as usual, counted.
Later ones run one at a time in their process: the job that kills again is counted, those that wait are not. The more
deaths a job has, the later its turn, so that harmless jobs finish first.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from heapq import heappop, heappush
from typing import TypeVar

from memcore.ledger.dead_letters import Attempts

#: How long a job waits for others for each death beyond its second: enough for those redelivered with it to arrive and
#: run, so that kills from outside do not hit the same job in its turn each time.
YIELD_TIME = timedelta(seconds=1)


class SerialGate:
    """A gate that one thread passes at a time, jobs with the fewest deaths first.

    Args:
        yield_time: wait before asking for a turn, for each death beyond the second.
    """

    def __init__(self, *, yield_time: timedelta = YIELD_TIME) -> None:
        self._yield_seconds = yield_time.total_seconds()
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._is_taken = False

    @property
    def waiting(self) -> int:
        """How many threads wait for a turn now."""
        return len(self._waiting)

    @contextmanager
    def acquire(self, deaths: int) -> Iterator[None]:
        """Wait for a turn and keep it as long as the context is open.

        Args:
            deaths: workers that died while they ran the job, at least 2.
        """
        # A child process runs jobs in its main thread, one at a time and against the clock: nobody else waits.
        if threading.current_thread() is not threading.main_thread():
            time.sleep(max(0, deaths - 2) * self._yield_seconds)
        with self._changed:
            heappush(self._waiting, deaths)
            self._changed.wait_for(lambda: not self._is_taken and self._waiting[0] == deaths)
            heappop(self._waiting)
            self._is_taken = True
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()


Result = TypeVar("Result")


class RedeliveryGuard:
    """Runs the redelivered jobs of one process, of all kinds: a job of one kind dies with a killer of another.

    Build it where jobs are registered: each fork gets its own copy.
    """

    def __init__(self, gate: SerialGate | None = None) -> None:
        self._gate = gate or SerialGate()

    def run(self, job_id: str, run: Callable[[int], Result], attempts: Attempts) -> Result:
        """Run a redelivered job in its turn; ``run`` gets the number of workers that died with it.

        The turn lasts until ``run`` returns, which deletes the count: a job that has run and is still counted must not
        run beside the next one.

        Raises:
            MemoryConnectionError, MemoryStoreError, MemoryRetrievalError: the ledger cannot count; the job did not run.
        """
        starts = attempts.count(job_id)
        if starts == 0:
            return self._counted(job_id, run, attempts)
        with self._gate.acquire(starts + 1):
            return self._counted(job_id, run, attempts)

    @staticmethod
    def _counted(job_id: str, run: Callable[[int], Result], attempts: Attempts) -> Result:
        # This start is not over, and that of the new message left no row: as many starts as deaths.
        return run(attempts.begin(job_id))
