"""The pace of each agent's stores: who sends far more than an agent makes is loading in bulk, and takes that lane."""

import threading
from typing import TYPE_CHECKING

from memcore.clock import Clock
from memcore.jobs.queues import Queue, store_queue

if TYPE_CHECKING:
    from datetime import datetime

#: Memories that an agent may send in one burst over its shard: what a worker writes in a quarter of a second, so that
#: whoever shares the shard hardly notices.
BURST = 64

#: Memories that an agent may send over its shard in the long run, per second; no agent thinks faster.
PER_SECOND = 16.0

#: Agents remembered at a time; about 2 MB. Those who sent nothing for a while have a full allowance, and are forgotten
#: first.
MAX_AGENTS = 10_000


class Pace:
    """Choose the queue of each store by what its agent sent lately; thread-safe.

    Args:
        clock: what time it is.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # What is left of each agent's allowance, and when that was; the agent who sent last stands last.
        self._left: dict[str, tuple[float, datetime]] = {}

    def queue(self, agent_id: str, *, count: int = 1) -> Queue:
        """Return the queue for so many memories of an agent: its shard, or the bulk lane once it sends too fast."""
        queue = store_queue(agent_id, count=count)
        if queue is Queue.STORE_BULK:
            return queue
        now = self._clock()
        with self._lock:
            left, since = self._left.pop(agent_id, (float(BURST), now))
            # A clock that was set back gives nothing and takes nothing.
            left = min(BURST, left + PER_SECOND * max(0.0, (now - since).total_seconds()))
            is_slow = left >= count
            self._left[agent_id] = (left - count if is_slow else left, now)
            if len(self._left) > MAX_AGENTS:
                del self._left[next(iter(self._left))]
        return queue if is_slow else Queue.STORE_BULK
