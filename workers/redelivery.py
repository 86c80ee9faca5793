"""Jobs that came back from a dead worker: they run again, but only so often, and in the end alone.

A broker hands a message out again when its worker died with it. Whether the job killed it, or stood beside the one that
did, nobody can tell: in a pool of threads, dozens die with the culprit. So the first return runs as usual, counted; the
next ones run one at a time in their process, so that the one that kills again is counted, and those that wait for their
turn are not; and the more deaths a job has behind it, the later its turn, so that the innocent are done before it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from heapq import heappop, heappush
from typing import TypeVar

from memcore.ledger.dead_letters import Attempts

#: How long a job lets others pass for each death beyond its second: enough for those that came back with it to arrive
#: and run, so that whoever kills from outside again and again does not meet the same one in its turn each time.
YIELD_TIME = timedelta(seconds=1)


class SerialGate:
    """Hand out turns to threads.

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
        """How many ask for a turn now."""
        return len(self._waiting)

    @contextmanager
    def acquire(self, deaths: int) -> Iterator[None]:
        """Wait for a turn and keep it as long as the context is open.

        Args:
            deaths: workers that died while they ran the job, at least 2.
        """
        # A child process runs jobs in its main thread, one at a time and against the clock: nobody is to be let pass.
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
    """The returned jobs of one process, of whatever kind: a job of one kind dies with a killer of another.

    A fork gets its own with its own turns: build it where jobs are registered.
    """

    def __init__(self, gate: SerialGate | None = None) -> None:
        self._gate = gate or SerialGate()

    def run(self, job_id: str, run: Callable[[int], Result], attempts: Attempts) -> Result:
        """Let a returned job have its turn; ``run`` gets the number of workers that died while they ran it.

        Its turn lasts until ``run`` returns, which forgets the count: a job that has run and is still counted must not
        stand beside the next one.

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
