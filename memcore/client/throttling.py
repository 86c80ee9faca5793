"""Back-pressure: a limit on each queue's length, and the bulk queue for senders of too much."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memcore.clock import Clock
from memcore.errors import MemoryInputError, MemoryQueueFullError
from memcore.jobs import Queue, store_queue

#: What a client does when a queue is full: tell its caller, or wait for room.
WhenFull = Literal["error", "block"]

#: Jobs sent after one poll of a queue: a poll costs a round trip, a tenth of a millisecond or more.
JOBS_PER_READ = 100

#: How long one poll counts, in seconds: workers take jobs meanwhile, so that only other senders can make it wrong.
POLL_INTERVAL_SECONDS = 0.1

#: Pause between two polls while waiting for room, in seconds.
WAIT_SECONDS = 0.05


@dataclass(slots=True)
class _QueueLength:
    seen_at: float
    room: int
    sent: int = 0


class QueueLimit:
    """Admits jobs while their queue holds fewer than ``max_waiting``; thread-safe.

    Each client polls for itself, and not at every job: many clients together may overshoot by what each sends between
    two polls. ``count`` returns how many jobs wait on a queue; the rest is as MemoryClient takes it. Raises
    MemoryInputError.
    """

    def __init__(
        self,
        count: Callable[[str], int],
        *,
        max_waiting: int,
        when_full: WhenFull,
        block_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if max_waiting < 1:
            raise MemoryInputError("max_waiting", f"is {max_waiting}; it must be at least 1")
        if when_full not in {"error", "block"}:
            raise MemoryInputError("when_full", "must be 'error' or 'block'")
        if block_seconds < 0:
            raise MemoryInputError("block_seconds", f"is {block_seconds:g}; it must not be negative")
        self._count = count
        self._max_waiting = max_waiting
        self._when_full = when_full
        self._block_seconds = block_seconds
        self._clock = clock
        self._sleep = sleep
        self._checks: dict[str, _QueueLength] = {}
        self._lock = threading.Lock()

    def admit(self, queue: str, jobs: int) -> int:
        """Return how many of these jobs may be sent now: all, or with ``block`` at least one, once there is room.

        Raises MemoryConnectionError, and MemoryQueueFullError when there is no such room, with ``block`` not in time.
        """
        must_fit = jobs if self._when_full == "error" else 1
        until = self._clock() + self._block_seconds
        while True:
            granted = self._take(queue, jobs, must_fit=must_fit)
            if granted:
                return granted
            if self._when_full == "error" or self._clock() >= until:
                limit = f"the limit is {self._max_waiting} waiting jobs"
                raise MemoryQueueFullError(f"{queue}: has no room for {must_fit} more; {limit}")
            self._sleep(WAIT_SECONDS)

    def _take(self, queue: str, jobs: int, *, must_fit: int) -> int:
        # Polled under the lock, so that only one thread replaces an old poll.
        with self._lock:
            known = self._checks.get(queue)
            if known is None or known.sent >= JOBS_PER_READ or self._clock() - known.seen_at > POLL_INTERVAL_SECONDS:
                capacity = max(0, self._max_waiting - self._count(queue))
                known = self._checks[queue] = _QueueLength(self._clock(), capacity)
            granted = min(jobs, known.room)
            if granted < must_fit:
                return 0
            known.room -= granted
            known.sent += granted
            return granted


#: Memories that an agent may send in one burst over its shard: what a worker writes in a quarter of a second, so that
#: other agents of the shard hardly notice.
BURST = 64

#: Memories that an agent may send over its shard in the long run, per second; no agent makes more.
PER_SECOND = 16.0

#: Memories that one process may send over the shards in one burst for its company, whatever agents they are of: what a
#: worker writes in half a second, job by job, so that another company hardly notices.
COMPANY_BURST = 128

#: The same in the long run, per second: a quarter of what a worker writes so. What sends more is loading, and the bulk
#: queue takes it as fast unless something else is loading too.
COMPANY_PER_SECOND = 64.0

#: Agents remembered at a time; about 2 MB. Idle agents have a full allowance, and are forgotten first.
MAX_AGENTS = 10_000


class StoreRateLimiter:
    """Routes an agent above 16 memories a second, or a company above 64, to the bulk queue; thread-safe.

    One process sends for one company, so this is the company's whole allowance there.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # What is left of each agent's allowance, and when that was; the agent who sent last stands last.
        self._left: dict[str, tuple[float, datetime]] = {}
        self._company: tuple[float, datetime] | None = None

    def queue(self, agent_id: str, *, count: int = 1) -> Queue:
        """Return the queue for so many memories of an agent: its shard, or the bulk queue once too many were sent."""
        queue = store_queue(agent_id, count=count)
        if queue is Queue.STORE_BULK:
            return queue
        now = self._clock()
        with self._lock:
            of_agent = _refilled(self._left.pop(agent_id, None), BURST, PER_SECOND, now)
            of_company = _refilled(self._company, COMPANY_BURST, COMPANY_PER_SECOND, now)
            is_slow = min(of_agent, of_company) >= count
            taken = count if is_slow else 0
            self._left[agent_id] = (of_agent - taken, now)
            self._company = (of_company - taken, now)
            if len(self._left) > MAX_AGENTS:
                del self._left[next(iter(self._left))]
        return queue if is_slow else Queue.STORE_BULK


def _refilled(before: tuple[float, datetime] | None, burst: int, per_second: float, now: datetime) -> float:
    if before is None:
        return float(burst)
    left, since = before
    # A clock that was set back gives nothing and takes nothing.
    return min(burst, left + per_second * max(0.0, (now - since).total_seconds()))
