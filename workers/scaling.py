"""How many children a worker has: one while nothing happens, more while jobs wait for one."""

import time
from collections.abc import Callable
from typing import Any, Literal

from celery.worker.autoscale import Autoscaler

#: Seconds between two looks; a message is one, too.
LOOK_SECONDS = 1.0

#: Seconds that a job waits for a child before there is another. Beat's short jobs come together and never do.
GROW_SECONDS = 1.0

#: Seconds after which a child that was not needed ends; it holds some 40 MiB.
SHRINK_SECONDS = 300.0


class PatientScaler(Autoscaler):  # type: ignore[misc]  # celery is untyped
    """Starts a child when jobs have waited for one, and ends it when it has not been needed for a while.

    Celery's own starts one for every second message, and may end a child to which a job is on its way.
    """

    def __init__(self, *args: Any, monotonic: Callable[[], float] = time.monotonic, **options: Any) -> None:
        super().__init__(*args, **{**options, "keepalive": LOOK_SECONDS})
        self._monotonic = monotonic
        self._crowded_since: float | None = None
        self._needed_at = monotonic()

    def _maybe_scale(self, req: Any = None) -> Literal[True] | None:
        del req
        now = self._monotonic()
        if self.qty <= self.min_concurrency:
            self._crowded_since = None
        elif self._crowded_since is None:
            self._crowded_since = now
        if self._crowded_since is not None and now - self._crowded_since >= GROW_SECONDS:
            self._needed_at = now
            if self.processes < min(self.qty, self.max_concurrency):
                self._grow(1)
                return True
        # With no job at all there is none on its way to the child that ends.
        elif not self.qty and self.processes > self.min_concurrency and now - self._needed_at >= SHRINK_SECONDS:
            self._shrink(1)
            return True
        return None
