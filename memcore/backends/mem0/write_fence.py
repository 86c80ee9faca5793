"""Every write of a backend: to the collection that serves, whatever is switched meanwhile.

A write counts only when the row that names the collection is behind it as it was before it; else it is done again where
the row points then. All writes are made so that twice is as good as once. So whoever has stopped the writes, and looked
at the old collection after that, has seen every write that counted there. The whole argument is in
docs/explanation/embedders.md.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from memcore.backends.mem0.active_collection import ActiveCollection, CacheEntry, CollectionCache
from memcore.backends.mem0.connection import StoreExecutor
from memcore.clock import Clock
from memcore.errors import MemoryConnectionError
from memcore.ledger.embedders.collections import Phase

#: Pause between two looks at a row that keeps writes waiting; they wait for seconds.
_POLL_INTERVAL = timedelta(milliseconds=50)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _FrozenWaits:
    """Writes are stopped."""


class FencedWriter:
    """Carry writes out.

    Args:
        collection_cache: which collection serves.
        calls: the threads that speak to the store.
        company: whose marks are left while a reindex is under way.
        clock: the time.
    """

    def __init__(self, collection_cache: CollectionCache, calls: StoreExecutor, *, company: str, clock: Clock) -> None:
        self._collection_cache = collection_cache
        self._calls = calls
        self._company = company
        self._clock = clock

    async def write(
        self,
        what: str,
        owners: Collection[str],
        write: Callable[[ActiveCollection], _T],
        *,
        joined: Callable[[_T, _T], _T] = lambda _, last: last,
        waits: bool = True,
    ) -> _T:
        """Write, and return what the write returned.

        Args:
            what: the call's name, for errors.
            owners: whose memories are touched.
            write: writes an active collection; it may be called again, with the same active collection or another.
            joined: makes one answer of two.
            waits: False raises MemoryConnectionError instead of waiting while writes are stopped.
        """
        before: list[_T] = []
        health_check: Callable[[], CacheEntry] = self._collection_cache.recent
        while True:
            done = await self._calls.write(what, partial(self._attempt, health_check, owners, write))
            if isinstance(done, _FrozenWaits):
                if not waits:
                    raise MemoryConnectionError(f"{what}: writes wait for the end of a reindex")
                # Not in a thread of the calls: reads need those.
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
            else:
                answer, counts = done
                before = [joined(before[0], answer)] if before else [answer]
                if counts:
                    return before[0]
            health_check = self._collection_cache.check_now

    def _attempt(
        self, health_check: Callable[[], CacheEntry], owners: Collection[str], write: Callable[[ActiveCollection], _T]
    ) -> "tuple[_T, bool] | _FrozenWaits":
        seen = health_check()
        pointer, marks = seen.pointer, self._collection_cache.marks
        if pointer is None or marks is None:
            return write(seen.active_collection), True
        now = self._clock()
        if pointer.is_closed(now):
            return _FrozenWaits()
        if pointer.is_overdue(now):
            self._collection_cache.unfreeze(pointer)
            return _FrozenWaits()
        marked = owners if pointer.phase is Phase.FILLING else ()
        marks.mark(self._company, marked)
        answer = write(seen.active_collection)
        return answer, marks.counts(self._company, version=pointer.version, owners=marked)
