"""Poison: jobs that no worker can do, and messages that are no jobs; each must become one dead letter."""

import json
import random
import time
from collections.abc import Sequence

from chaos.fault_thread import FaultThread
from chaos.hook import KILLER
from redis import Redis
from redis.exceptions import RedisError

from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import JobResults
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError
from memcore.ids import new_id
from memcore.jobs import Queue, StorePayload

#: Mean pause between two bad jobs, in seconds.
_PAUSE_SECONDS = 8.0

#: Seconds before a job that the broker did not take is sent again.
_AGAIN_SECONDS = 0.5

#: A company that nobody registered.
UNKNOWN_COMPANY = "other"

#: Payloads that can never be done: no JSON, no memories, an unknown company's.
_PAYLOADS = (
    "this is no JSON",
    '{"version": 1, "items": []}',
    json.dumps({"version": 1, "company": UNKNOWN_COMPANY, "items": [{}]}),
)


class PoisonSender(FaultThread):
    """Sends a bad job among the good ones now and then.

    Attributes:
        job_ids: jobs that can never be done and must become dead letters.
        killer_ids: jobs that kill their worker, and must become dead letters once they have killed enough of them.
        unreadable: bytes that are no message, and must become dead letters of their own.
    """

    def __init__(
        self, settings: Settings, *, queues: Sequence[Queue], dice: random.Random, sends_garbage: bool, killers: int
    ) -> None:
        super().__init__()
        self.job_ids: set[str] = set()
        self.killer_ids: set[str] = set()
        self.unreadable: set[bytes] = set()
        self._settings = settings
        self._queues = queues
        self._dice = dice
        self._sends_garbage = sends_garbage
        self._killers = killers

    def work(self) -> None:
        """Send bad jobs until the chaos run is over."""
        sender = JobResults(self._settings.broker_url, None)
        try:
            for _ in range(self._killers):
                self.killer_ids.add(self._send(sender, KILLER, "{}", queue=self._dice.choice(self._queues)))
            while not self.is_over.wait(self._dice.uniform(0.0, 2 * _PAUSE_SECONDS)):
                queue = self._dice.choice(self._queues)
                if self._dice.randrange(3) or not self._sends_garbage:
                    self.job_ids.add(self._send(sender, StorePayload.task, self._dice.choice(_PAYLOADS), queue=queue))
                else:
                    self._send_garbage(queue)
        finally:
            sender.close()

    @staticmethod
    def _send(sender: JobResults, name: str, payload: str, *, queue: Queue) -> str:
        job = OutgoingJob(job_id=new_id(), queue=str(queue), payload=payload, summary="poison")
        while True:
            try:
                sender.publish(name, [job], track=False)
            except MemoryConnectionError:
                time.sleep(_AGAIN_SECONDS)
            else:
                return job.job_id

    def _send_garbage(self, queue: Queue) -> None:
        garbage = f"garbage {new_id()}".encode()
        try:
            with Redis.from_url(self._settings.broker_url) as broker:
                broker.lpush(str(queue), garbage)
        except RedisError:
            return  # not counted: nothing depends on it
        self.unreadable.add(garbage)
