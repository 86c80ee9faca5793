"""Fenced writes: they reach the collection that serves, even when a reindex switches it meanwhile.

A write counts only when the pointer row is the same before and after it; else it is repeated where the row points then.
All writes are idempotent. So a reindex that stops the writes, and then reads the old collection, sees every write that
counted there. See docs/explanation/embedders.md.
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

#: Pause between two reads of a row that keeps writes waiting; they wait for seconds.
_POLL_INTERVAL = timedelta(milliseconds=50)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Frozen:
    """Writes are frozen: try again."""


class FencedWriter:
    """Executes writes against the collection that serves.

    Args:
        collection_cache: which collection serves.
        calls: the threads that speak to the store.
        company: whose owners are marked while a reindex is under way.
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
        lookup: Callable[[], CacheEntry] = self._collection_cache.recent
        while True:
            done = await self._calls.write(what, partial(self._attempt, lookup, owners, write))
            if isinstance(done, _Frozen):
                if not waits:
                    raise MemoryConnectionError(f"{what}: writes wait for the end of a reindex")
                # Not in a thread of the calls: reads need those.
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
            else:
                answer, counts = done
                before = [joined(before[0], answer)] if before else [answer]
                if counts:
                    return before[0]
            lookup = self._collection_cache.check_now

    def _attempt(
        self, lookup: Callable[[], CacheEntry], owners: Collection[str], write: Callable[[ActiveCollection], _T]
    ) -> "tuple[_T, bool] | _Frozen":
        seen = lookup()
        pointer, marks = seen.pointer, self._collection_cache.marks
        if pointer is None or marks is None:
            return write(seen.active_collection), True
        now = self._clock()
        if pointer.is_closed(now):
            return _Frozen()
        if pointer.is_overdue(now):
            self._collection_cache.unfreeze(pointer)
            return _Frozen()
        marked = owners if pointer.phase is Phase.FILLING else ()
        marks.mark(self._company, marked)
        answer = write(seen.active_collection)
        return answer, marks.counts(self._company, version=pointer.version, owners=marked)
