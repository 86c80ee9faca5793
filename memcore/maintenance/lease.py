"""A run's lease: renewed in the background, checked before every write, with the kill switch."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Self

from memcore.errors import LeaseLostError
from memcore.ledger.runs import Runs
from memcore.maintenance.events import MaintenanceEvent

#: How long a worker owns a run after its last renewal: a dead worker frees its agent within a minute.
LEASE_LENGTH = timedelta(seconds=45)

#: How often the lease is renewed: three renewals may fail before it ends.
LEASE_RENEWAL = timedelta(seconds=10)

_log = logging.getLogger(__name__)


class Lease:
    """The lease of a claimed run, as a context manager; a thread renews it.

    The holder counts the lease's seconds on its own monotonic clock from before the renewal was sent. So it stops
    before another worker can claim the run, however long the database's answer took.

    Args:
        token: the fencing token that the claim returned.
        since: reading of ``monotonic`` taken before the claim.
        switch: checks the kill switch; None for an undo or a restore: a person who paused everything because a run went
            wrong must be able to reverse it, or to restore a memory, even when the switch cannot be read.
        monotonic: seconds on a clock that never goes back.
    """

    def __init__(
        self,
        runs: Runs,
        run_id: str,
        token: str,
        *,
        since: float,
        switch: Callable[[], None] | None = None,
        length: timedelta = LEASE_LENGTH,
        renewal: timedelta = LEASE_RENEWAL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs = runs
        self._run_id = run_id
        self.token = token
        self._switch = switch
        self._length = length
        self._renewal_seconds = renewal.total_seconds()
        self._monotonic = monotonic
        self._ends = since + length.total_seconds()
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_end, name=f"lease-{run_id}", daemon=True)

    def __enter__(self) -> Self:
        """Start the renewals."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the renewals; the lease lasts until the run is finished, released or its time is over."""
        self._stop.set()
        self._thread.join()

    def enter(self) -> None:
        """Check lease and switch before something new is decided. Raises LeaseLostError, MaintenancePausedError."""
        self.check()
        if self._switch is not None:
            self._switch()

    def check(self) -> None:
        """Check the lease alone, by this process's own clock: a pause leaves no journal entry half done.

        Raises LeaseLostError.
        """
        if self._lost or self._monotonic() >= self._ends:
            raise LeaseLostError(f"run {self._run_id}: the lease has ended or belongs to another worker")

    def confirm(self) -> None:
        """Renew now, so that the database confirms the owner. Raises LeaseLostError."""
        self.check()
        self._renew()

    def release(self, *, after: timedelta) -> None:
        """End the lease after the delay of a retry; until then nobody claims the run. Raises LeaseLostError."""
        self._runs.renew(self._run_id, self.token, lease=after)

    def _renew(self) -> None:
        asked = self._monotonic()
        try:
            self._runs.renew(self._run_id, self.token, lease=self._length)
        except LeaseLostError:
            self._lost = True
            raise
        self._ends = asked + self._length.total_seconds()

    def _renew_until_end(self) -> None:
        while not self._stop.wait(self._renewal_seconds):
            try:
                self._renew()
            except LeaseLostError:
                _log.warning(MaintenanceEvent.LEASE_LOST, extra={"run_id": self._run_id})
                return
            except Exception as error:  # noqa: BLE001  # a busy database must not end the renewals
                _log.warning(
                    MaintenanceEvent.LEASE_UNCERTAIN,
                    extra={"run_id": self._run_id, "error_type": type(error).__name__},
                )
