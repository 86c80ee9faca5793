"""The lease of a work item: renewed in the background, checked before every write, with the kill switch."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Self

from memcore.errors import (
    LeaseLostError,
    MemoryError,  # noqa: A004  # the reference fixes the name
)
from memcore.ledger.work_items import Work

#: How long a worker owns an item after its last renewal: the work of a dead one is free within a minute.
LEASE_LENGTH = timedelta(seconds=45)

#: How often the lease is renewed: three renewals may fail before it ends.
LEASE_RENEWAL = timedelta(seconds=10)

_log = logging.getLogger(__name__)


class LeaseEvent(StrEnum):
    """A log event of a lease."""

    #: The ledger could not be reached to renew it; the next renewal tries again.
    UNCERTAIN = "work.lease.uncertain"
    LOST = "work.lease.lost"


class Lease:
    """The lease of a claimed item, as a context manager; a thread renews it.

    The holder counts the lease's seconds on its own monotonic clock from before the renewal was sent. So it stops
    before another worker can claim the item, however long the database's answer took.

    Args:
        work: the repository of the item's kind.
        token: the fencing token that the claim returned.
        since: reading of ``monotonic`` taken before the claim.
        switch: checks the kill switch; None for an undo or a restore: a person who paused everything because a run went
            wrong must be able to reverse it, or to restore a memory, even when the switch cannot be read.
        monotonic: seconds on a clock that never goes back.
        releases: whether an error makes the item available again at once, as if it had not been claimed.
    """

    def __init__(
        self,
        work: Work[Any],
        company: str,
        key: str,
        token: str,
        *,
        since: float,
        switch: Callable[[], None] | None = None,
        length: timedelta = LEASE_LENGTH,
        renewal: timedelta = LEASE_RENEWAL,
        monotonic: Callable[[], float] = time.monotonic,
        releases: bool = False,
    ) -> None:
        self.token = token
        self._key = key
        self._renew_row = partial(work.renew, company, key, token, lease=length)
        self._release = partial(work.release, company, key, token, is_unused=True) if releases else None
        self._switch = switch
        self._length = length
        self._renewal_seconds = renewal.total_seconds()
        self._monotonic = monotonic
        self._ends = since + length.total_seconds()
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_end, name=f"lease-{key}", daemon=True)

    def __enter__(self) -> Self:
        """Start the renewals."""
        self._thread.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Stop the renewals; the lease lasts until the item is moved on or its time is over."""
        self._stop.set()
        self._thread.join()
        if self._release is not None and isinstance(error, Exception):
            with suppress(MemoryError):
                self._release()

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
            raise LeaseLostError(f"{self._key}: the lease has ended or belongs to another worker")

    def confirm(self, *, fresh: timedelta = timedelta(0)) -> None:
        """Renew now, so that the database confirms the owner; a renewal that was sent so lately is enough.

        Raises LeaseLostError.
        """
        self.check()
        if self._ends - self._monotonic() <= (self._length - fresh).total_seconds():
            self._renew()

    def _renew(self) -> None:
        asked = self._monotonic()
        try:
            self._renew_row()
        except LeaseLostError:
            self._lost = True
            raise
        self._ends = asked + self._length.total_seconds()

    def _renew_until_end(self) -> None:
        while not self._stop.wait(self._renewal_seconds):
            try:
                self._renew()
            except LeaseLostError:
                _log.warning(LeaseEvent.LOST, extra={"key": self._key})
                return
            except Exception as error:  # noqa: BLE001  # a busy database must not end the renewals
                _log.warning(LeaseEvent.UNCERTAIN, extra={"key": self._key, "error_type": type(error).__name__})
