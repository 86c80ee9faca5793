"""Who carries a reindex on: one worker, which says often enough that it lives."""

from datetime import timedelta

from memcore.clock import Clock
from memcore.errors import LeaseLostError
from memcore.ledger.reindexes import Reindexes

#: How long a dead worker keeps a reindex from going on; longer than writes may be stopped.
LEASE = timedelta(seconds=45)

#: How old the last sign of life may be when a write is sent. What remains of the lease is longer than a call to the
#: store may take, so that no write of a worker that lost it arrives later.
FRESH = timedelta(seconds=5)


class ReindexLease:
    """Hold a reindex.

    Args:
        reindexes: the ledger's.
        company: whose.
        token: that of the holder.
        clock: the time.
    """

    def __init__(self, reindexes: Reindexes, *, company: str, token: str, clock: Clock) -> None:
        self._reindexes = reindexes
        self._company = company
        self._token = token
        self._clock = clock
        self._renewed_at = clock()

    def keep(self) -> None:
        """Renew the lease when its last renewal is not fresh. Raises LeaseLostError."""
        now = self._clock()
        if now - self._renewed_at < FRESH:
            return
        if not self._reindexes.renew(self._company, self._token, lease=LEASE):
            raise LeaseLostError("another worker has the reindex, or it has ended")
        self._renewed_at = now
