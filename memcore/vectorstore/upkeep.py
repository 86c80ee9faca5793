"""The store's upkeep between requests: late syncs, checkpoints and vacuums.

The durability policy, whole:

- The write-ahead log is always on: a write that was answered survives ``kill -9``.
- ``wait=true``: the log is synced before the answer; writers that arrive meanwhile share the next sync (see ``wal``).
- ``wait=false``: the log is synced by the timer here, within ``TICK`` of the answer.
- A checkpoint writes the segments themselves, so that the log stays short: in an idle moment, or when the last is old.
- A vacuum follows when the collection was idle for a while; the engine itself leaves segments alone that have less than
  20% deleted points.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from memcore.vectorstore.collection import Collection
from memcore.vectorstore.refusal import DiskFullError, RefusedError
from memcore.vectorstore.store import Store

#: Time between two rounds, and so how long a write with wait=false may be lost to a power cut.
TICK = timedelta(seconds=1)

#: A collection unused for this long is idle: a checkpoint (about 10 ms) will hardly meet a request.
IDLE = timedelta(seconds=1)

#: A busy collection is checkpointed at this age, so that reopening replays no more than half a minute of writes.
OLDEST_CHECKPOINT = timedelta(seconds=30)

#: A collection unused for this long is vacuumed if it needs it (up to a second or two with everything standing still).
QUIET = timedelta(seconds=10)

_log = logging.getLogger(__name__)


class Upkeep:
    """Goes round the collections of a store.

    Args:
        store: the open store.
        monotonic: the clock that the store was opened with.
    """

    def __init__(self, store: Store, *, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic

    async def run(self) -> None:
        """Go round for ever; cancel it to stop."""
        while True:
            await asyncio.sleep(TICK.total_seconds())
            await self.round()

    async def round(self) -> None:
        """Do once what is due; a failure is logged, tried again the next time, and holds up no other collection."""
        for collection in list(self._store.collections.values()):
            try:
                await self._tend(collection)
            except RefusedError:
                _log.exception("store.upkeep.failed collection=%s", collection.name)

    async def _tend(self, collection: Collection) -> None:
        if collection.commit.pending:
            await collection.settle()
        # the collection may have been deleted meanwhile
        if collection is not self._store.collections.get(collection.name):
            return
        try:
            self._store.refuse_when_full()
        except DiskFullError:
            return  # the log holds everything, and on a full disk a checkpoint would fail
        now = self._monotonic()
        idle = now - collection.used_at
        is_old = now - collection.checkpoint_at >= OLDEST_CHECKPOINT.total_seconds()
        if collection.needs_checkpoint and (idle >= IDLE.total_seconds() or is_old):
            collection.checkpoint()
        if collection.needs_vacuum and idle >= QUIET.total_seconds() and collection.vacuum():
            _log.info("store.vacuum.complete collection=%s", collection.name)
