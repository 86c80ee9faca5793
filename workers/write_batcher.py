"""The batch writer: writes the memories of many store jobs in few batches, from an engine queue and a bulk queue.

Each job submits its memories and waits for its own future. A writer thread closes a batch by count, bytes or
milliseconds, whichever comes first, writes it, and answers every future. A job that cannot be written fails alone. A
bulk load never delays an engine's few memories.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Literal, Self

from memcore.company import CompanyContext
from memcore.errors import (
    MemoryConnectionError,
    MemoryDiskFullError,
    MemoryError,  # noqa: A004  # the reference fixes the name
)
from memcore.event_loop import CallersLoops
from memcore.ingest import Ingestor, WriteResult
from memcore.jobs import BULK_ABOVE, StoreItem
from memcore.ledger.monitoring.measures import MeasureName, Measures
from memcore.models.memory import CANARY_OWNER
from memcore.telemetry import tracing
from memcore.telemetry.tracing import Attribute

#: Share of the written memories that bulk loads keep while engines wait too, so that they never stop.
BULK_SHARE = 0.25

#: Seconds between two additions to the ledger's counter: one for each batch would write as often as the batches do.
SAVE_SECONDS = 5.0

QueueClass = Literal["engine", "bulk"]


class StoredCounter:
    """Counts memories that this process has stored, and adds them to a counter of the company's in the ledger.

    Thread-safe. A process that is killed loses at most the count of its last seconds: no memory depends on it.
    """

    def __init__(
        self,
        measures: Measures,
        company: str,
        name: MeasureName,
        *,
        seconds: float = SAVE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measures = measures
        self._company = company
        self._name = name
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._unsaved = 0
        self._saved_at = float("-inf")

    def add(self, count: int) -> None:
        """Count memories; save the count if it is time."""
        with self._lock:
            self._unsaved += count
            is_due = self._monotonic() - self._saved_at >= self._seconds
        if is_due:
            self.save()

    def save(self) -> None:
        """Add what is counted to the ledger; while that is away, it waits for the next save."""
        with self._lock:
            if not self._unsaved:
                return
            count, self._unsaved, self._saved_at = self._unsaved, 0, self._monotonic()
        try:
            self._measures.add(self._company, self._name, count)
        except MemoryError:
            with self._lock:
                self._unsaved += count


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """An entry of a queue: the memories of one job, and their size in bytes."""

    items: Sequence[StoreItem]
    size: int
    future: "Future[WriteResult]" = field(default_factory=Future)
    trace: str | None = field(default_factory=tracing.current_context)

    @property
    def owner(self) -> str:
        """The agent whose turn it takes; an import's job may hold memories of many, and any of them will do."""
        return self.items[0].agent_id if self.items else ""

    @property
    def count(self) -> int:
        """How many memories it holds."""
        return len(self.items)


class FairQueue:
    """A round-robin queue of pending writes: one of each owner in turn, an owner's oldest first."""

    def __init__(self) -> None:
        self._of_owner: dict[str, deque[PendingWrite]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_owner)

    def enqueue(self, pending: PendingWrite) -> None:
        """Add a pending write behind its owner's others; a new owner's turn comes last."""
        self._of_owner.setdefault(pending.owner, deque()).append(pending)

    def peek(self) -> PendingWrite:
        """Return the pending write whose turn it is."""
        return next(iter(self._of_owner.values()))[0]

    def take(self) -> PendingWrite:
        """Take the pending write whose turn it is."""
        owner, pending_writes = next(iter(self._of_owner.items()))
        pending = pending_writes.popleft()
        # A dict keeps the order of insertion: out and in again is the end of the round.
        del self._of_owner[owner]
        if pending_writes:
            self._of_owner[owner] = pending_writes
        return pending


class FairQueues:
    """An engine queue with priority, and a bulk queue with a guaranteed share. Not thread-safe: the batch writer locks.

    While both wait, every engine memory written earns the bulk queue a credit; as soon as the credit covers its next
    pending write, that one is next. A batch never mixes the queues: an engine's few memories are not embedded together
    with a bulk load's hundreds.

    Args:
        bulk_share: part of the memories that the bulk queue gets while engines wait, above 0 and below 1.
    """

    def __init__(self, *, bulk_share: float = BULK_SHARE) -> None:
        self._queues: dict[QueueClass, FairQueue] = {"engine": FairQueue(), "bulk": FairQueue()}
        self._earned_per_memory = bulk_share / (1 - bulk_share)
        self._credit = 0.0

    def __bool__(self) -> bool:
        return any(self._queues.values())

    def enqueue(self, pending: PendingWrite, queue_class: QueueClass) -> None:
        """Add a pending write to a queue."""
        self._queues[queue_class].enqueue(pending)

    def next_class(self, *, with_bulk: bool = True) -> QueueClass | None:
        """Return the queue of the next batch; None when nothing waits that may be written now."""
        engine, bulk = self._queues["engine"], self._queues["bulk"]
        if not bulk or not with_bulk:
            return "engine" if engine else None
        return "bulk" if not engine or self._credit >= bulk.peek().count else "engine"

    def take(self, queue_class: QueueClass) -> PendingWrite | None:
        """Take the queue's next pending write; None when it is empty."""
        if not self._queues[queue_class]:
            return None
        pending = self._queues[queue_class].take()
        engine, bulk = self._queues["engine"], self._queues["bulk"]
        if not bulk:
            # The rest must not count for, or against, a load that comes much later.
            self._credit = 0.0
        elif queue_class == "engine":
            self._credit += pending.count * self._earned_per_memory
        elif engine:
            # Below zero when a batch takes more than the pending write that the credit covered.
            self._credit -= pending.count
        return pending


#: Memories in one write; the store takes 256 points in one step (STACK, Vector store).
MAX_ITEMS = 256

#: Text in one write, in bytes (2 MiB): bounds the memory of a batch of long texts.
MAX_BYTES = 2_097_152

#: Text of one job above which it counts as a bulk load, however few its memories, in bytes (64 KiB).
BULK_BYTES = 65_536

#: How long an open batch waits for more; far below what anyone notices of a background write.
LINGER = timedelta(milliseconds=3)

#: Writer threads: while some embed, others wait for the store, which always has a next write to do. Bulk loads use all
#: but one at most, so that no engine waits for a bulk write to end; more of them would make its write wait too long.
WRITERS = 5


class BatchWriter:
    """Writes the memories of concurrent jobs in batches; start it after the fork, close it before the process ends.

    Args:
        write: writes items and says what became of them; called from the writer threads.
        bulk_above: memories in one job above which it takes the bulk queue.
        bulk_share: part of the memories written that bulk keeps while engines wait.
    """

    def __init__(
        self,
        write: Callable[[Sequence[StoreItem]], WriteResult],
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
        self._queues = FairQueues(bulk_share=bulk_share)
        self._bulk_writers = max(1, writers - 1)
        self._bulk_writing = 0
        self._changed = threading.Condition()
        # One writer collects at a time: two that linger together would split one batch.
        self._collecting = threading.Lock()
        self._is_closed = False
        self._threads = [threading.Thread(target=self._work, name=f"writer-{n}", daemon=True) for n in range(writers)]

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build and start the batch writer of a worker's company; it closes with the context."""
        ingestor, counter = Ingestor.of(context), partial(StoredCounter, context.ledger.measures, context.company)
        stored, suspect = counter(MeasureName.MEMORIES_STORED), counter(MeasureName.SUSPECT_STORED)
        own = CallersLoops()
        context.opened.callback(own.close)
        # What a plug-in has opened may belong to the loop of all.
        loop = context.loop if getattr(context.backend, "is_loop_bound", True) else own

        def write(items: Sequence[StoreItem]) -> WriteResult:
            written = loop.run(ingestor.write(items))
            stored.add(sum(item.id in written.stored and item.agent_id != CANARY_OWNER for item in items))
            suspect.add(len(written.suspect))
            return written

        writer = cls(write)
        writer.start()
        context.opened.callback(stored.save)
        context.opened.callback(suspect.save)
        # Called back before that.
        context.opened.callback(writer.close)
        return writer

    def start(self) -> None:
        """Start the writer threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Write what was submitted, then stop; later submissions are refused."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def submit(self, items: Sequence[StoreItem]) -> "Future[WriteResult]":
        """Return a future of what became of these memories once their batch is written.

        Raises MemoryConnectionError: the batch writer is closed; the job must run elsewhere.
        """
        pending = PendingWrite(items, sum(len(item.request.content.encode()) for item in items))
        is_bulk = pending.count > self._bulk_above or pending.size > BULK_BYTES
        # Under the lock: a pending write added after the writers' last check would never be answered.
        with self._changed:
            if self._is_closed:
                raise MemoryConnectionError("the batch writer is closed")
            self._queues.enqueue(pending, "bulk" if is_bulk else "engine")
            self._changed.notify()
        return pending.future

    def _work(self) -> None:
        while True:
            with self._collecting:
                queue_class, batch = self._collect()
            if queue_class is None:
                return
            self._settle(batch)
            if queue_class == "bulk":
                with self._changed:
                    self._bulk_writing -= 1
                    self._changed.notify_all()

    def _collect(self) -> tuple[QueueClass | None, list[PendingWrite]]:
        # No queue only when the batch writer is closed and empty.
        with self._changed:
            while (queue_class := self._next_class()) is None:
                if self._is_closed and not self._queues:
                    return None, []
                self._changed.wait()
            if queue_class == "bulk":
                self._bulk_writing += 1
            return queue_class, self._fill(queue_class)

    def _next_class(self) -> QueueClass | None:
        return self._queues.next_class(with_bulk=self._bulk_writing < self._bulk_writers)

    def _fill(self, queue_class: QueueClass) -> list[PendingWrite]:
        batch: list[PendingWrite] = []
        count = size = 0
        closes_at = time.monotonic() + self._linger_seconds
        while count < self._max_items and size < self._max_bytes:
            pending = self._queues.take(queue_class)
            if pending is not None:
                batch.append(pending)
                count += pending.count
                size += pending.size
                continue
            left = closes_at - time.monotonic()
            # An open bulk batch does not make engines wait while it fills.
            if self._is_closed or left <= 0 or (queue_class == "bulk" and self._queues):
                break
            self._changed.wait(left)
        return batch

    def _settle(self, batch: Sequence[PendingWrite]) -> None:
        # The same id may be here twice, from a redelivery beside its original. The one sent last counts for both: if
        # a run removed the memory in between, the older one is tombstoned and the newer one is not.
        items: dict[str, StoreItem] = {}
        for item in (item for pending in batch for item in pending.items):
            if item.id not in items or item.sent_at > items[item.id].sent_at:
                items[item.id] = item
        # The batch is a part of the first job's trace; those of the others are linked.
        traces = [pending.trace for pending in batch if pending.trace is not None]
        about = {Attribute.MEMORIES: len(items), Attribute.JOBS: len(batch)}
        try:
            with (
                tracing.continued(traces[0] if traces else None),
                tracing.span("write batch", about, links=traces[1:]),
            ):
                written = self._write(tuple(items.values()))
        except (MemoryConnectionError, MemoryDiskFullError) as error:
            self._fail(batch, error)
        except BaseException as error:  # noqa: BLE001  # every future must be answered, or its job hangs
            self._isolate(batch, error)
        else:
            for pending in batch:
                pending.future.set_result(written.of(pending.items))

    def _isolate(self, batch: Sequence[PendingWrite], error: BaseException) -> None:
        if len(batch) == 1:
            self._fail(batch, error)
            return
        for pending in batch:
            self._settle([pending])

    @staticmethod
    def _fail(batch: Sequence[PendingWrite], error: BaseException) -> None:
        for pending in batch:
            pending.future.set_exception(error)
