"""Turns: one job at a time, and of those that wait the one with the fewest deaths behind it is next."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from heapq import heappop, heappush

#: How long a job lets others pass for each death beyond its second: enough for those that came back with it to arrive
#: and run, so that whoever kills from outside again and again does not meet the same one in its turn each time.
LET_PASS = timedelta(seconds=1)


class Turns:
    """Hand out turns to threads.

    Args:
        let_pass: wait before asking for a turn, for each death beyond the second.
    """

    def __init__(self, *, let_pass: timedelta = LET_PASS) -> None:
        self._let_pass_seconds = let_pass.total_seconds()
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._is_taken = False

    @property
    def waiting(self) -> int:
        """How many ask for a turn now."""
        return len(self._waiting)

    @contextmanager
    def alone(self, deaths: int) -> Iterator[None]:
        """Wait for a turn and keep it as long as the context is open.

        Args:
            deaths: workers that died while they ran the job, at least 2.
        """
        # A child process runs jobs in its main thread, one at a time and against the clock: nobody is to be let pass.
        if threading.current_thread() is not threading.main_thread():
            time.sleep(max(0, deaths - 2) * self._let_pass_seconds)
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
