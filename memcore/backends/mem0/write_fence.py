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

from memcore.backends.mem0.active_collection import Seen, Shelf, Shelves
from memcore.backends.mem0.connection import Calls
from memcore.clock import Clock
from memcore.errors import MemoryConnectionError
from memcore.ledger.embedders.collections import Phase

#: Pause between two looks at a row that keeps writes waiting; they wait for seconds.
_LOOK = timedelta(milliseconds=50)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Waits:
    """Writes are stopped."""


class Fence:
    """Carry writes out.

    Args:
        shelves: which collection serves.
        calls: the threads that speak to the store.
        company: whose marks are left while a reindex is under way.
        clock: the time.
    """

    def __init__(self, shelves: Shelves, calls: Calls, *, company: str, clock: Clock) -> None:
        self._shelves = shelves
        self._calls = calls
        self._company = company
        self._clock = clock

    async def write(
        self,
        what: str,
        owners: Collection[str],
        write: Callable[[Shelf], _T],
        *,
        joined: Callable[[_T, _T], _T] = lambda _, last: last,
        waits: bool = True,
    ) -> _T:
        """Write, and return what the write returned.

        Args:
            what: the call's name, for errors.
            owners: whose memories are touched.
            write: writes a shelf; it may be called again, with the same shelf or another.
            joined: makes one answer of two.
            waits: False raises MemoryConnectionError instead of waiting while writes are stopped.
        """
        before: list[_T] = []
        look: Callable[[], Seen] = self._shelves.recent
        while True:
            done = await self._calls.write(what, partial(self._attempt, look, owners, write))
            if isinstance(done, _Waits):
                if not waits:
                    raise MemoryConnectionError(f"{what}: writes wait for the end of a reindex")
                # Not in a thread of the calls: reads need those.
                await asyncio.sleep(_LOOK.total_seconds())
            else:
                answer, counts = done
                before = [joined(before[0], answer)] if before else [answer]
                if counts:
                    return before[0]
            look = self._shelves.look

    def _attempt(
        self, look: Callable[[], Seen], owners: Collection[str], write: Callable[[Shelf], _T]
    ) -> "tuple[_T, bool] | _Waits":
        seen = look()
        serving, marks = seen.serving, self._shelves.marks
        if serving is None or marks is None:
            return write(seen.shelf), True
        now = self._clock()
        if serving.is_closed(now):
            return _Waits()
        if serving.is_overdue(now):
            self._shelves.thaw(serving)
            return _Waits()
        marked = owners if serving.phase is Phase.FILLING else ()
        marks.mark(self._company, marked)
        answer = write(seen.shelf)
        return answer, marks.counts(self._company, version=serving.version, owners=marked)
