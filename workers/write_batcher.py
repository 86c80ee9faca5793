"""The write desk: many store jobs, few writes.

Each job lays its memories on the desk and waits for its own future. A writer takes what lies there, closes the batch by
count, bytes or milliseconds, whichever comes first, writes it together, and answers every future. A job that cannot be
written fails alone. A bulk load never stands before an engine's few memories (see workers.write_batcher).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, Literal, Protocol, TypeVar

from memcore.errors import MemoryConnectionError, MemoryDiskFullError
from memcore.ingest import Written
from memcore.jobs.payloads import StoreItem
from memcore.jobs.queues import BULK_ABOVE

#: The part of all memories written that bulk loads keep while engines wait too, as a share: they never stand still.
BULK_SHARE = 0.25

LaneName = Literal["engine", "bulk"]


class Slip(Protocol):
    """What lies in a lane: some memories of one job."""

    @property
    def owner(self) -> str:
        """The agent that it is dealt under."""
        ...

    @property
    def count(self) -> int:
        """How many memories it holds."""
        ...


SlipT = TypeVar("SlipT", bound=Slip)


class Lane(Generic[SlipT]):
    """Slips in the order of their owners' turns: one slip an owner, round and round, the oldest of each first."""

    def __init__(self) -> None:
        """Start empty."""
        self._of_owner: dict[str, deque[SlipT]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_owner)

    def lay(self, slip: SlipT) -> None:
        """Lay a slip behind its owner's others; a new owner's turn comes last."""
        self._of_owner.setdefault(slip.owner, deque()).append(slip)

    def peek(self) -> SlipT:
        """Return the slip whose turn it is."""
        return next(iter(self._of_owner.values()))[0]

    def take(self) -> SlipT:
        """Take the slip whose turn it is."""
        owner, slips = next(iter(self._of_owner.items()))
        slip = slips.popleft()
        # A dict keeps the order of insertion: out and in again is the end of the round.
        del self._of_owner[owner]
        if slips:
            self._of_owner[owner] = slips
        return slip


class Lanes(Generic[SlipT]):
    """An engine lane that goes first, and a bulk lane that keeps a share. Not thread-safe: its desk locks.

    While both wait, every memory that engines get written earns the bulk lane a credit; as soon as the credit pays for
    its next slip, that slip is next. Two lanes never share a batch: an engine's few memories are not embedded together
    with a bulk load's hundreds.

    Args:
        bulk_share: part of the memories that the bulk lane gets while engines wait, above 0 and below 1.
    """

    def __init__(self, *, bulk_share: float = BULK_SHARE) -> None:
        self._lanes: dict[LaneName, Lane[SlipT]] = {"engine": Lane(), "bulk": Lane()}
        self._earned_per_memory = bulk_share / (1 - bulk_share)
        self._credit = 0.0

    def __bool__(self) -> bool:
        return any(self._lanes.values())

    def lay(self, slip: SlipT, lane: LaneName) -> None:
        """Lay a slip into a lane."""
        self._lanes[lane].lay(slip)

    def next_lane(self, *, with_bulk: bool = True) -> LaneName | None:
        """Say which lane the next batch comes from; None when nothing waits, or only what may not go now."""
        engine, bulk = self._lanes["engine"], self._lanes["bulk"]
        if not bulk or not with_bulk:
            return "engine" if engine else None
        return "bulk" if not engine or self._credit >= bulk.peek().count else "engine"

    def take(self, lane: LaneName) -> SlipT | None:
        """Take the lane's next slip; None when it is empty."""
        if not self._lanes[lane]:
            return None
        slip = self._lanes[lane].take()
        engine, bulk = self._lanes["engine"], self._lanes["bulk"]
        if not bulk:
            # What is left over is no advance, and no debt, of a load that comes much later.
            self._credit = 0.0
        elif lane == "engine":
            self._credit += slip.count * self._earned_per_memory
        elif engine:
            # Below zero where a batch takes more than the slip that was paid for.
            self._credit -= slip.count
        return slip


#: Memories in one write; the store takes 256 points in one step (STACK, Vector store).
MAX_ITEMS = 256

#: Text in one write, in bytes (2 MiB): bounds the memory of a batch of long texts.
MAX_BYTES = 2_097_152

#: Text of one job above which it counts as a bulk load, however few its memories, in bytes (64 KiB).
BULK_BYTES = 65_536

#: How long an open batch waits for company; far below what anyone notices of a background write.
LINGER = timedelta(milliseconds=3)

#: Writers at work: while one waits for the store, another embeds. Bulk loads keep all but one busy at most, so that no
#: engine waits for a bulk write to end.
WRITERS = 3


@dataclass(frozen=True, slots=True)
class _Slip:
    items: Sequence[StoreItem]
    size: int
    future: "Future[Written]" = field(default_factory=Future)

    @property
    def owner(self) -> str:
        # An engine's job holds one agent's memories; an import's may hold many, and any of them will do.
        return self.items[0].agent_id if self.items else ""

    @property
    def count(self) -> int:
        return len(self.items)


class Desk:
    """Batch the memories of concurrent jobs; start it after the fork, close it before the process ends.

    Args:
        write: writes items and says what became of them; called from the writer threads.
        bulk_above: memories in one job above which it takes the bulk lane.
        bulk_share: part of the memories written that bulk keeps while engines wait.
    """

    def __init__(
        self,
        write: Callable[[Sequence[StoreItem]], Written],
        *,
        max_items: int = MAX_ITEMS,
        max_bytes: int = MAX_BYTES,
        linger: timedelta = LINGER,
        writers: int = WRITERS,
        bulk_above: int = BULK_ABOVE,
        bulk_share: float = BULK_SHARE,
    ) -> None:
        self._write = write
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._linger_seconds = linger.total_seconds()
        self._bulk_above = bulk_above
        self._lanes: Lanes[_Slip] = Lanes(bulk_share=bulk_share)
        self._bulk_writers = max(1, writers - 1)
        self._bulk_writing = 0
        self._changed = threading.Condition()
        # One writer collects at a time: two that linger together would share out one batch between them.
        self._collecting = threading.Lock()
        self._is_closed = False
        self._threads = [threading.Thread(target=self._work, name=f"desk-{n}", daemon=True) for n in range(writers)]

    def start(self) -> None:
        """Set the writers to work."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Write what lies on the desk, then stop; later submissions are refused."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def submit(self, items: Sequence[StoreItem]) -> "Future[Written]":
        """Return a future of what became of these memories once their batch is written.

        Raises:
            MemoryConnectionError: the desk is closed; the job must run elsewhere.
        """
        slip = _Slip(items, sum(len(item.request.content.encode()) for item in items))
        is_bulk = slip.count > self._bulk_above or slip.size > BULK_BYTES
        # Under the lock: a slip laid after the writers' last look would never be answered.
        with self._changed:
            if self._is_closed:
                msg = "the write desk is closed"
                raise MemoryConnectionError(msg)
            self._lanes.lay(slip, "bulk" if is_bulk else "engine")
            self._changed.notify()
        return slip.future

    def _work(self) -> None:
        while True:
            with self._collecting:
                lane, batch = self._collect()
            if lane is None:
                return
            self._settle(batch)
            if lane == "bulk":
                with self._changed:
                    self._bulk_writing -= 1
                    self._changed.notify_all()

    def _collect(self) -> tuple[LaneName | None, list[_Slip]]:
        # No lane only when the desk is closed and nothing is left on it.
        with self._changed:
            while (lane := self._next_lane()) is None:
                if self._is_closed and not self._lanes:
                    return None, []
                self._changed.wait()
            if lane == "bulk":
                self._bulk_writing += 1
            return lane, self._fill(lane)

    def _next_lane(self) -> LaneName | None:
        return self._lanes.next_lane(with_bulk=self._bulk_writing < self._bulk_writers)

    def _fill(self, lane: LaneName) -> list[_Slip]:
        batch: list[_Slip] = []
        count = size = 0
        closes_at = time.monotonic() + self._linger_seconds
        while count < self._max_items and size < self._max_bytes:
            slip = self._lanes.take(lane)
            if slip is not None:
                batch.append(slip)
                count += slip.count
                size += slip.size
                continue
            left = closes_at - time.monotonic()
            # An open bulk batch does not let engines wait for its company.
            if self._is_closed or left <= 0 or (lane == "bulk" and self._lanes):
                break
            self._changed.wait(left)
        return batch

    def _settle(self, batch: Sequence[_Slip]) -> None:
        # The same id may lie here twice, from a redelivery beside its original. The one sent last stands for both: if
        # a run removed the memory in between, the older one is buried and the newer one is not.
        items: dict[str, StoreItem] = {}
        for item in (item for slip in batch for item in slip.items):
            if item.id not in items or item.sent_at > items[item.id].sent_at:
                items[item.id] = item
        try:
            written = self._write(tuple(items.values()))
        except (MemoryConnectionError, MemoryDiskFullError) as error:
            self._fail(batch, error)
        except Exception as error:  # noqa: BLE001  # every future must be answered, or its job hangs
            self._isolate(batch, error)
        else:
            for slip in batch:
                slip.future.set_result(written.of(slip.items))

    def _isolate(self, batch: Sequence[_Slip], error: Exception) -> None:
        if len(batch) == 1:
            self._fail(batch, error)
            return
        for slip in batch:
            self._settle([slip])

    @staticmethod
    def _fail(batch: Sequence[_Slip], error: Exception) -> None:
        for slip in batch:
            slip.future.set_exception(error)
