"""Delivered and unacknowledged messages of a channel: the client side of at-least-once delivery."""

import logging
import os
from collections import deque
from itertools import islice
from typing import Any

from kombu.transport import redis
from kombu.transport.virtual.base import QoS as VirtualQoS
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads

from memcore.telemetry.events import Event
from workers.transport.holder import is_dead
from workers.transport.scripts import HELD, HOLDERS, OVERDUE, RENEW, RESTORE, TURN

#: Tags in one command. Lua's ``unpack`` fails near 8,000 values and a turn should stay well under a millisecond at
#: the server.
GROUP_SIZE = 500


class Acks:
    """The tags that jobs acknowledged and the broker does not know yet.

    Adding is safe from any thread. An acknowledgement sent twice does no harm: the second finds nothing to remove.
    """

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._sent: list[str] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, tag: str) -> None:
        """Keep one tag until the next group is sent."""
        self._waiting.append(tag)

    def send(self) -> list[str]:
        """Return the next group; it is kept until ``confirm`` or ``recall``."""
        self._sent = [self._waiting.popleft() for _ in islice(self._waiting.copy(), GROUP_SIZE)]
        return self._sent

    def confirm(self) -> None:
        """Forget the sent group: the broker answered."""
        self._sent = []

    def recall(self) -> None:
        """Put the sent group back: no answer came, so nobody knows whether the broker read it."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent = []


#: Messages that one turn may take. 64 cost the server about a millisecond (0.016 each, measured); more would delay
#: other clients.
BATCH_SIZE = 64

#: Overdue messages that one sweep restores when ``unacked_restore_limit`` is not set: a sweep blocks the worker's
#: event loop meanwhile.
SWEEP_SIZE = 256

#: Bytes (16 MiB) after which a sweep lists no further message: the worker holds all of a sweep at once.
SWEEP_BYTES = 16_777_216

#: ``RESTORE``'s idle time for a message that its own holder requeues.
ANY_IDLE_SECONDS = -1

_logger = logging.getLogger(__name__)


class ReliableQoS(redis.QoS):  # type: ignore[misc]  # kombu is untyped
    """QoS with grouped acknowledgements, restoring without a mutex; the pop has already registered the messages."""

    _delivered: Any
    _dirty: Any

    def __init__(self, channel: Any, prefetch_count: int = 0) -> None:
        """Follow kombu's signature: the channel owns this object."""
        super().__init__(channel, prefetch_count)
        self.acks = Acks()
        #: Tags that the pop registered and whose messages are not yet delivered.
        self.registered: set[str] = set()
        #: The queues of held messages, by tag, where the channel limits their number.
        self.limited: dict[str, str] = {}
        self._owner_pid = os.getpid()

    def held_of(self, queue: str) -> int:
        """Say how many messages of a limited queue are delivered and not acknowledged."""
        # A copy first: threads of the pool acknowledge meanwhile.
        return tuple(self.limited.values()).count(queue)

    def window(self) -> int:
        """Say how many messages the next turn may take.

        One at a time without an event loop, as a plain consumer expects, and where Celery replaced ``can_consume``
        (``worker_disable_prefetch``), whose limit cannot be read.
        """
        if not self.can_consume():
            return 0
        if not self.channel.in_event_loop or "can_consume" in vars(self):
            return 1
        if not self.prefetch_count:
            return BATCH_SIZE
        free: int = self.prefetch_count - (len(self._delivered) - len(self._dirty))
        return max(0, min(BATCH_SIZE, free))

    def append(self, message: Any, delivery_tag: str) -> None:
        """Remember a delivered message; only what no pop registered (a broadcast) is written to the broker here."""
        if delivery_tag in self.registered:
            self.registered.discard(delivery_tag)
            VirtualQoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge with the next turn where an event loop will take one, at once everywhere else.

        Works on a closed channel too: a job that outlives its connection is still acknowledged, not run twice.
        """
        self.acks.add(delivery_tag)
        self.limited.pop(delivery_tag, None)
        if not self.channel.holds_acks:
            self.flush()
        VirtualQoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Requeue the message at the queue's end, or drop it."""
        if requeue:
            self.restore_by_tag(delivery_tag, leftmost=True)
            self.limited.pop(delivery_tag, None)
            VirtualQoS.ack(self, delivery_tag)
        else:
            self.ack(delivery_tag)

    def flush(self) -> None:
        """Send every waiting acknowledgement now; on failure they keep waiting and the error is raised."""
        while self.acks:
            tags = self.acks.send()
            try:
                self.channel.run(
                    TURN,
                    (self.unacked_key, self.unacked_index_key, self.channel.unreadable_key),
                    (*(0,) * 5, "", *tags),
                )
            except BaseException:
                self.acks.recall()
                raise
            self.acks.confirm()

    def renew(self) -> None:
        """Renew the held messages, so that they are not redelivered while this process lives."""
        tags = tuple(self._delivered)
        if tags:
            self.channel.run(RENEW, (self.unacked_index_key,), tags)

    def restore_visible(self, start: int = 0, num: int | None = None, interval: int = 1) -> None:  # noqa: ARG002  # kombu's signature
        """Restore the messages of dead workers: at once where this machine knows that the process is gone.

        Of all others, those that their worker did not renew for the visibility timeout.
        """
        self._vrestore_count += 1
        if (self._vrestore_count - 1) % (interval or 1):
            return
        keys = (self.unacked_key, self.unacked_index_key)
        for holder in self.channel.run(HOLDERS, keys, ()):
            if is_dead(bytes_to_str(holder)):
                self._take_over(bytes_to_str(holder))
        overdue = self.channel.run(OVERDUE, keys, (self.visibility_timeout, num or SWEEP_SIZE, SWEEP_BYTES))
        for tag, entry in zip(overdue[::2], overdue[1::2], strict=True):
            self._restore(bytes_to_str(tag), entry, idle_seconds=self.visibility_timeout, leftmost=False)

    def _take_over(self, holder: str) -> None:
        held = self.channel.run(HELD, (self.unacked_key, self.unacked_index_key), (holder, SWEEP_BYTES))
        # The first one last: it is taken next.
        for tag, entry in reversed(tuple(zip(held[::2], held[1::2], strict=True))):
            self._restore(bytes_to_str(tag), entry, idle_seconds=ANY_IDLE_SECONDS, leftmost=False, holder=holder)
        if held:
            _logger.warning("%s count=%d holder=%s", Event.TRANSPORT_MESSAGES_TAKEN_OVER, len(held) // 2, holder)

    def restore_by_tag(self, tag: str, client: Any = None, leftmost: bool = False) -> None:  # noqa: ARG002  # kombu's signature
        """Restore one message at once, unless it was acknowledged or restored meanwhile."""
        entry = self.channel.fetch_unacked(tag)
        if entry is not None:
            self._restore(tag, entry, idle_seconds=ANY_IDLE_SECONDS, leftmost=leftmost)

    def restore_unacked(self, client: Any = None) -> None:  # noqa: ARG002  # kombu's signature
        """Restore every unacknowledged message; the oldest is taken next."""
        for tag in reversed(tuple(self._delivered)):
            self.restore_by_tag(tag)
        self._delivered.clear()

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Restore what is left at close and at exit, and never raise: what fails here, the sweep redelivers."""
        if os.getpid() != self._owner_pid:
            self._on_collect.cancel()
            return
        try:
            super().restore_unacked_once(stderr)
        except Exception as problem:  # noqa: BLE001  # kombu calls this in teardown, where an error ends the worker
            _logger.warning(
                "%s unacked=%d reason=%s",
                Event.TRANSPORT_RESTORE_POSTPONED,
                len(self._delivered),
                type(problem).__name__,
            )
            self.forget()

    def forget(self) -> None:
        """Leave the unacknowledged messages where they are: jobs may still run, and the sweep redelivers the rest."""
        self._on_collect.cancel()
        self._delivered.clear()
        self._delivered.restored = True

    def drop(self, tag: str) -> None:
        """Forget a message that was moved elsewhere."""
        self.registered.discard(tag)
        self.limited.pop(tag, None)
        VirtualQoS.ack(self, tag)

    def _restore(self, tag: str, entry: bytes, *, idle_seconds: float, leftmost: bool, holder: str = "") -> None:
        try:
            again, exchange, routing_key = _marked(entry)
            priority = self.channel._get_message_priority(again, reverse=False)  # noqa: SLF001  # kombu's own way to it
        except Exception as problem:  # noqa: BLE001  # whatever it is: the next sweep, and the next worker's, would meet it again
            _logger.error("%s reason=%s", Event.TRANSPORT_RESTORE_UNREADABLE, type(problem).__name__)  # noqa: TRY400  # see above
            self.channel.set_aside(tag, "", entry)
            return
        lists = self.channel.lists_of(exchange, routing_key, priority)
        if not lists:
            # Stock kombu removes the message here and pushes it nowhere.
            _logger.error("%s tag=%s", Event.TRANSPORT_RESTORE_UNROUTABLE, tag)
            self.channel.run(RENEW, (self.unacked_index_key,), (tag,))
            return
        keys = (self.unacked_key, self.unacked_index_key, *lists)
        payload = dumps(again)
        push = "LPUSH" if leftmost else "RPUSH"
        self.channel.run(RESTORE, keys, (tag, idle_seconds, holder, push, *(payload for _ in lists)))


def _marked(entry: bytes) -> tuple[dict[str, Any], str, str]:
    """Return an unacknowledged message, marked as redelivered, with its exchange and routing key."""
    payload, exchange, routing_key = loads(entry.decode())
    payload["headers"]["redelivered"] = True
    payload["properties"]["delivery_info"]["redelivered"] = True
    if not isinstance(exchange, str) or not isinstance(routing_key, str):
        raise TypeError("no address")
    return payload, exchange, routing_key
