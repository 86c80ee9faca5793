"""Jobs that came back from a dead worker: they run again, but only so often, and in the end alone.

A broker hands a message out again when its worker died with it. Whether the job killed it, or stood beside the one that
did, nobody can tell: in a pool of threads, dozens die with the culprit. So the first return runs as usual, counted; the
next ones run one at a time in their process, so that the one that kills again is counted, and those that wait for their
turn are not; and the more deaths a job has behind it, the later its turn, so that the innocent are done before it.
"""

from collections.abc import Callable
from typing import TypeVar

from memcore.ledger.attempts import Attempts
from workers.turns import Turns

Result = TypeVar("Result")


class Trial:
    """The returned jobs of one process, of whatever kind: a job of one kind dies with a killer of another.

    A fork gets its own with its own turns: build it where jobs are registered.
    """

    def __init__(self, turns: Turns | None = None) -> None:
        self._turns = turns or Turns()

    def carry_out(self, job_id: str, run: Callable[[int], Result], attempts: Attempts) -> Result:
        """Let a returned job have its turn; ``run`` gets the number of workers that died while they ran it.

        Its turn lasts until ``run`` returns, which forgets the count: a job that has run and is still counted must not
        stand beside the next one.

        Raises:
            MemoryConnectionError, MemoryStoreError, MemoryRetrievalError: the ledger cannot count; the job did not run.
        """
        starts = attempts.count(job_id)
        if starts == 0:
            return self._counted(job_id, run, attempts)
        with self._turns.alone(starts + 1):
            return self._counted(job_id, run, attempts)

    @staticmethod
    def _counted(job_id: str, run: Callable[[int], Result], attempts: Attempts) -> Result:
        # This start is not over, and that of the new message left no row: as many starts as deaths.
        return run(attempts.begin(job_id))
