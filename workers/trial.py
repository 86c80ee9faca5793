"""Jobs that came back from a dead worker: they run again, but only so often, and in the end alone.

A broker hands a message out again when its worker died with it. Whether the job killed it, or stood beside the one that
did, nobody can tell: in a pool of threads, dozens die with the culprit. So the first return runs as usual, counted; the
next ones run one at a time in their process, so that the one that kills again is counted, and those that wait for their
turn are not.
"""

import threading
from collections.abc import Callable

from memcore.jobs.outcomes import Dead, Outcome
from memcore.ledger.attempts import Attempts


class Trial:
    """The returned jobs of one process. A fork gets its own with its own lock: build it where jobs are registered.

    Args:
        deaths: workers that may die while they run a job; then it is given up.
    """

    def __init__(self, *, deaths: int) -> None:
        self._deaths = deaths
        self._alone = threading.Lock()

    def carry_out(self, job_id: str, run: Callable[[], Outcome], attempts: Attempts) -> Outcome:
        """Run a returned job, or give it up when it has come back too often.

        Raises:
            MemoryConnectionError, MemoryStoreError, MemoryRetrievalError: the ledger cannot count; the job did not run.
        """
        if attempts.count(job_id) == 0:
            attempts.begin(job_id)
            return run()
        with self._alone:
            # The start whose message was new left no row: it is one of the deaths.
            died = attempts.count(job_id) + 1
            if died >= self._deaths:
                return Dead(reason=f"{died} workers died while they ran it")
            attempts.begin(job_id)
            return run()
