"""The sign of life of whoever carries out a stage; with it goes the progress, and back comes the wish to cancel."""

from datetime import timedelta

from memcore.clock import Clock
from memcore.errors import FineTuneCancelledError, LeaseLostError, MemoryConnectionError, MemoryStoreError
from memcore.finetune.markers import Progress, Said
from memcore.jobs.progress import Tell, untold
from memcore.ledger.finetune_run import FineTuneRun
from memcore.ledger.finetune_runs import FineTuneRuns

#: How long a dead worker keeps a run from going on.
LEASE = timedelta(seconds=45)

#: Least time between two signs of life, and so between two words on the progress.
BEAT = timedelta(seconds=1)


class Pulse:
    """Keep a run in hand.

    Args:
        runs: the ledger's.
        company: whose.
        run: the run, as it was claimed.
        token: of the claim.
        clock: the time.
        tell: takes the stage and its progress with each sign of life.

    Attributes:
        run_id: of the run.
    """

    def __init__(
        self,
        runs: FineTuneRuns,
        *,
        company: str,
        run: FineTuneRun,
        token: str,
        clock: Clock,
        tell: Tell = untold,
    ) -> None:
        self._runs = runs
        self._company = company
        self.run_id = run.run_id
        self._token = token
        self._clock = clock
        self._tell = tell
        self._beaten_at = self._safe_at = clock()
        self._progress: float | None = None
        self._is_cancelled = run.cancel_requested_at is not None

    def hear(self, said: Said) -> None:
        """Take what a runner says: its progress is told with the next sign of life."""
        if isinstance(said, Progress):
            self._progress = said.fraction

    def cancelled(self) -> bool:
        """Give a sign of life if it is time for one, and say whether a person wants the run to end.

        Raises LeaseLostError: another worker has the run, or the ledger has been away for as long as the lease lasts.
        """
        now = self._clock()
        if now - self._beaten_at >= BEAT:
            self._beaten_at = now
            try:
                run = self._runs.beat(self._company, self.run_id, self._token, lease=LEASE, progress=self._progress)
            except (MemoryConnectionError, MemoryStoreError):
                if now - self._safe_at >= LEASE:
                    raise LeaseLostError("the ledger was away for as long as the lease lasts") from None
                return self._is_cancelled
            self._safe_at, self._is_cancelled = now, run.cancel_requested_at is not None
            self._tell(run.stage, run.progress)
        return self._is_cancelled

    def check(self) -> None:
        """Give a sign of life. Raises LeaseLostError, and FineTuneCancelledError when a person wants the run to end."""
        if self.cancelled():
            raise FineTuneCancelledError("a person cancelled the run")
