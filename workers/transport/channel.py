"""The channel: fetches messages from the queues in turn, waits while they are empty, and closes without raising.

Its list of unreadable messages stands below it; whoever reads that keeps each elsewhere, then removes it.
"""

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from hashlib import sha1
from queue import Empty
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal

from kombu.transport import redis, virtual
from kombu.transport.redis import _socket_readable
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads
from redis import Redis
from redis.exceptions import NoScriptError, ResponseError

from memcore.telemetry.events import Event
from workers.transport.holder import holder_of
from workers.transport.polling import QueueWaiter
from workers.transport.qos import ReliableQoS
from workers.transport.scripts import PIECE, REMOVE, SENT, SET_ASIDE, SIZE, TURN, TURN_DIGEST, UNSORT

#: Seconds after which a channel interrupts the delivery of a batch to send acknowledgements. A solo worker runs jobs
#: inside the delivery: without this the first job of a batch would be acknowledged only after the last.
SLICE_SECONDS = 0.02

#: Seconds between turns while every waiter waits: waiters watch the ordinary lists only, this finds messages sent with
#: a priority, which no client of ours sends.
POLL_SECONDS = 5.0

#: Seconds that closing or cancelling waits for the answer to an open turn; without it the visibility timeout
#: brings its messages back.
SETTLE_SECONDS = 2.0

#: Bytes (16 MiB) after which a turn takes no further message: 64 of the largest would fill a worker's memory.
TURN_BYTES = 16_777_216

#: Most scripts that closing spends on a list's sorted messages: a hundred thousand of them.
UNSORT_CALLS = 100

#: kombu's name for the socket on which a channel receives messages.
FETCH = "BRPOP"

#: Bytes (8 MiB) of a message that are read at once: a worker needs little more room, however large the message is, and
#: the server copies all of it for each piece.
PIECE_BYTES = 8_388_608

#: Longest queue name in front of a message; an older release wrote none.
_QUEUE_BYTES = 512

_logger = logging.getLogger(__name__)


def broker_errors(transport: Any) -> tuple[type[Exception], ...]:
    """Return the errors of the broker, not of a message: kombu counts KeyError among a connection's."""
    return tuple(each for each in (*transport.connection_errors, *transport.channel_errors) if each is not KeyError)


class Channel(redis.Channel):  # type: ignore[misc]  # kombu is untyped
    """A Redis channel that loses nothing when a connection, a worker or the broker dies between any two steps.

    Lists, ``unacked`` and ``unacked_index`` look as kombu's own transport writes them, so both may work side by side.
    """

    QoS = ReliableQoS

    #: Seconds; kombu's 300 would let a dead holder stop redelivery that long for stock workers sharing the database.
    unacked_mutex_expire = 15

    #: Sweeps for overdue messages: every one that the timer asks for.
    unacked_restore_throttle = 1

    #: Transport option: whether a living worker keeps its messages from being redelivered, however long its jobs take.
    renew_visibility = True

    #: Transport option: the list of unreadable messages; kombu would lose them and restart.
    unreadable_key = "unreadable"

    #: Transport option: the largest message to read, in bytes; a larger one goes to the same list, undecoded.
    largest_message = 8_388_608

    #: Transport option: the most unacknowledged messages that a worker holds of these queues, by name; a long queue of
    #: heavy jobs must not take every slot of a worker that serves light ones too.
    queue_limits: Mapping[str, int] = MappingProxyType({})

    from_transport_options = (
        *redis.Channel.from_transport_options,
        "renew_visibility",
        "unreadable_key",
        "largest_message",
        "queue_limits",
    )

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        """Open the channel and check that the broker answers; ``connection`` is the transport that owns it."""
        self._owner_pid = os.getpid()
        self._holder = holder_of(self._owner_pid)
        self._waiters: dict[str, QueueWaiter] = {}
        self._inbox: deque[tuple[str, str, bytes]] = deque()
        #: Unreadable messages, until they are kept elsewhere.
        self.unreadable = UnreadableMessages(self)
        self._unregistered_queues: set[str] = set()
        self._qos: ReliableQoS | None = None
        self._asked: tuple[dict[str, int], int] = ({}, 0)
        #: The queues that may hold more than the last turn took.
        self._ready: set[str] = set()
        #: The queues whose messages it may have sorted.
        self._fetched: set[str] = set()
        self._is_script_known = False
        self._broker_errors = broker_errors(connection)
        super().__init__(connection, **kwargs)
        # Built now: a channel without its connection can build no client, and late acknowledgements need one.
        self._commands = self._create_client()
        self.handlers["LISTEN"] = partial(self._watch, self._receive)

    @property
    def qos(self) -> ReliableQoS:
        """The delivered messages that are not acknowledged."""
        if self._qos is None:
            self._qos = ReliableQoS(self)
        return self._qos

    @property
    def in_event_loop(self) -> bool:
        """Whether an event loop drives this channel (every Celery pool but eventlet and gevent)."""
        return bool(self.connection is not None and self.connection.in_event_loop)

    @property
    def holds_acks(self) -> bool:
        """Whether a next turn is certain, so that acknowledgements may wait for it."""
        return self.in_event_loop and not self._closing and bool(self._queue_cycle.items)

    def conn_or_acquire(self, client: Any = None) -> Any:
        """Return the one client of this channel; kombu builds one per call, in a fifth of a worker's time."""
        return nullcontext(client or self._commands)

    def run(self, script: str, keys: tuple[str, ...], args: tuple[Any, ...]) -> Any:
        """Run a script and wait for its reply, apart from a turn that may be open."""
        prefixed = [self.global_keyprefix + key for key in keys]
        # Past kombu's prefixing client, which would prefix none of EVAL's keys.
        execute: Any = Redis.execute_command
        return execute(self._commands, "EVAL", script, len(prefixed), *prefixed, *args)

    def fetch_unacked(self, tag: str) -> Any:
        """Read the entry of one unacknowledged message."""
        return self._commands.hget(self.unacked_key, tag)

    def lists_of(self, exchange: str, routing_key: str, priority: int) -> list[str]:
        """Return the lists of a message to be redelivered."""
        return [self._q_for_pri(queue, priority) for queue in self._lookup(exchange, routing_key)]

    def oldest_sent(self, queue: str) -> float | None:
        """Return when a queue's oldest waiting message was sent, in seconds since 1970; None for none that says."""
        found = [float(each) for each in self.run(SENT, tuple(self._lists((queue,))), ()) if each]
        return min(found, default=None)

    def set_aside(self, tag: str, queue: str, raw: bytes) -> None:
        """Move an unreadable message from ``unacked`` to the list of unreadable messages."""
        keys = (self.unacked_key, self.unacked_index_key, self.unreadable_key)
        self.run(SET_ASIDE, keys, (tag, queue.encode() + b"\n" + raw))
        self.unreadable.note(1)

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Start consuming; messages of a ``no_ack`` queue are not registered as unacknowledged."""
        (self._unregistered_queues.add if no_ack else self._unregistered_queues.discard)(queue)
        result = super().basic_consume(queue, no_ack, *args, **kwargs)
        self._ready.add(queue)
        self._fetched.add(queue)
        return result

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Any:
        """Take one message now, or None."""
        self._fetched.add(queue)
        keys = (self.unacked_key, self.unacked_index_key, self.unreadable_key, *self._lists((queue,)))
        reply = self.run(TURN, keys, (1, 1, 1, self.largest_message, TURN_BYTES, self._holder, 0 if no_ack else 1, 1))
        with self.conn_or_acquire() as client:
            self._maybe_update_queues_expire(client, queue)
        if len(reply) == 1:
            return None
        message: Any = self.Message(loads(bytes_to_str(reply[3])), channel=self)
        if not no_ack:
            self.qos.registered.add(message.delivery_tag)
            self.qos.append(message, message.delivery_tag)
        return message

    def advance(self, poller: Any) -> None:
        """Send the next turn if there is anything to acknowledge or to fetch, else wait at the queues."""
        if self._in_poll:
            return
        queues = tuple(self._queue_cycle.consume(len(self._queue_cycle.items)))
        # Nothing more while messages of the last turn wait for their delivery.
        wanted = self.qos.window() if queues and not self._inbox else 0
        # A queue at its limit would wake for messages that nobody may take.
        most = {queue: self._free_slots(queue, wanted) for queue in queues}
        is_ready = any(most.get(queue) for queue in self._ready)
        is_poll_due = monotonic() - (self._brpop_sent_at or 0) >= POLL_SECONDS
        if self.qos.acks or self._inbox or is_ready or (wanted and is_poll_due):
            poller.attach(self, self.client, FETCH)
            self._watch(self._send_round, most, wanted)
        if not is_ready:
            for queue in filter(most.get, queues):
                waiter = self._waiter(queue)
                if waiter.wait_started_at is None:
                    poller.attach(self, waiter, f"WAITER {queue}")
                    self._watch(waiter.start_wait)

    def drop_stale_waiters(self) -> None:
        """Disconnect waiters whose server went silent; the event loop connects them again."""
        for waiter in self._waiters.values():
            sock = waiter.connection._sock  # noqa: SLF001  # as kombu's own check reads it
            if waiter.is_overdue(grace_seconds=self.health_check_interval or 0) and not _socket_readable(sock):
                _logger.warning("%s queue=%s", Event.TRANSPORT_BELL_SILENT, waiter.key)
                waiter.connection.disconnect()

    def close(self) -> None:
        """Requeue what was not acknowledged and close; never raises, so that a worker survives its broker.

        After a lost connection nothing is requeued: jobs still run and acknowledge by themselves, and the visibility
        timeout redelivers the rest. Requeuing at once would run those jobs twice.
        """
        if self.closed:
            return
        was_lost = self.connection.is_lost or (self.in_event_loop and bool(self._consumers))
        self._closing = True
        self._guarded(self._abandon_round if was_lost else self._settle)
        self._guarded(self.qos.flush)
        if not was_lost:
            self._guarded(partial(self._unsort, *self._fetched))
        if was_lost:
            self.qos.forget()
            self.auto_delete_queues.clear()
        for waiter in self._waiters.values():
            self._guarded(waiter.close)
        if not self._guarded(super().close) and not self.closed:
            # Only the deletion of temporary queues speaks to the broker: without it the second try stays local.
            self.auto_delete_queues.clear()
            self._guarded(super().close)
            self._guarded(partial(virtual.Channel.close, self))

    def _basic_cancel(self, consumer_tag: str) -> Any:
        result = super()._basic_cancel(consumer_tag)
        if not self._queue_cycle.items and not self.connection.is_lost:
            self._settle()
            self.qos.flush()
        return result

    def _update_queue_cycle(self) -> None:
        super()._update_queue_cycle()
        self._ready &= set(self._queue_cycle.items)
        for queue in set(self._waiters) - set(self._queue_cycle.items):
            self._waiters.pop(queue).close()
            self.handlers.pop(f"WAITER {queue}", None)

    def _waiter(self, queue: str) -> QueueWaiter:
        if queue not in self._waiters:
            # Outside the pool on purpose: its default limit of ten connections would limit the queues of a worker.
            connection = self.async_pool.connection_class(**self.async_pool.connection_kwargs)
            self._waiters[queue] = QueueWaiter(connection=connection, key=self.global_keyprefix + queue)
            self.handlers[f"WAITER {queue}"] = partial(self._hear, self._waiters[queue])
        return self._waiters[queue]

    def _hear(self, waiter: QueueWaiter) -> None:
        try:
            if self._watch(waiter.listen):
                self._ready.add(waiter.key.removeprefix(self.global_keyprefix))
        except ResponseError as problem:
            # A full server refuses to move even onto the same place; polling goes on finding messages.
            _logger.warning("%s queue=%s reason=%s", Event.TRANSPORT_BELL_REFUSED, waiter.key, problem)
            waiter.wait_started_at = monotonic()
        raise Empty

    def _size(self, queue: str) -> Any:
        return int(self.run(SIZE, tuple(self._lists((queue,))), ()))

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return bool(self._size(queue))

    def _purge(self, queue: str) -> int:
        self._unsort(queue)
        return int(super()._purge(queue))

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        self._unsort(queue)
        super()._delete(queue, *args, **kwargs)

    def _unsort(self, *queues: str) -> None:
        """Move sorted messages back to where workers of an earlier release, and stock consumers, find them."""
        for key in self._lists(queues):
            # Bounded: other workers may sort them again meanwhile.
            for _ in range(UNSORT_CALLS):
                if not self.run(UNSORT, (key,), ()):
                    break

    def _lists(self, queues: tuple[str, ...]) -> list[str]:
        return [self._q_for_pri(queue, step) for step in self.priority_steps for queue in queues]

    def _free_slots(self, queue: str, wanted: int) -> int:
        limit = self.queue_limits.get(queue)
        if limit is None:
            return wanted
        waiting = sum(name == queue for name, *_ in self._inbox)
        return min(wanted, max(0, limit - waiting - self.qos.held_of(queue)))

    def _send_round(self, most: dict[str, int], wanted: int) -> None:
        queues = tuple(most)
        is_fair = self.queue_order_strategy == "round_robin"
        flags = [0 if queue in self._unregistered_queues else 1 for queue in queues]
        keys = [self.unacked_key, self.unacked_index_key, self.unreadable_key, *self._lists(queues)]
        keys = [self.global_keyprefix + key for key in keys]
        command = ("EVALSHA", TURN_DIGEST) if self._is_script_known else ("EVAL", TURN)
        connection = self.client.connection
        self._asked = (most, wanted)
        self._in_poll = connection
        self._brpop_sent_at = monotonic()
        limits = (self.largest_message, TURN_BYTES, self._holder)
        arguments = (wanted, len(queues), int(is_fair), *limits, *flags, *most.values(), *self.qos.acks.send())
        connection.send_command(*command, len(keys), *keys, *arguments)

    def _brpop_read(self, **_: Any) -> Literal[True]:
        """Read the answer to the turn and deliver its messages (kombu calls it by this name)."""
        if self._in_poll:
            self._watch(self._read_round)
        if not self._inbox:
            raise Empty
        self._deliver()
        return True

    def _read_round(self) -> None:
        try:
            unreadable, *taken = self.client.connection.read_response()
        except NoScriptError:
            # The server's scripts were flushed: nothing of the turn happened.
            self._abandon_round()
            self._is_script_known = False
            raise Empty from None
        except BaseException:
            self._abandon_round()
            raise
        self._in_poll = None
        self._is_script_known = True
        self.qos.acks.confirm()
        most, wanted = self._asked
        queues = tuple(most)
        # Without an unreadable message, whose queue is not told, a queue has no more that gave less than it might.
        is_full = len(taken) // 3 >= wanted or sum(map(len, taken[2::3])) >= TURN_BYTES
        if not is_full and not unreadable:
            given = Counter(taken[::3])
            self._ready -= {queue for slot, queue in enumerate(queues, start=1) if given[slot] < most[queue]}
        for slot, tag, raw in zip(taken[::3], taken[1::3], taken[2::3], strict=True):
            self._inbox.append((queues[slot - 1], bytes_to_str(tag), raw))
            self._queue_cycle.rotate(queues[slot - 1])
        if unreadable:
            self.unreadable.note(unreadable)
        self._flush_brpop_reauth()

    def _abandon_round(self) -> None:
        if self._in_poll is not None:
            # Its answer is lost, and with it how many messages it moved aside: nobody else would look for them.
            self.unreadable.may_wait = True
        self._in_poll = None
        self.qos.acks.recall()

    def _deliver(self) -> None:
        until = monotonic() + SLICE_SECONDS
        while self._inbox and not self._closing:
            queue, tag, raw = self._inbox.popleft()
            if tag:
                self.qos.registered.add(tag)
                if queue in self.queue_limits:
                    self.qos.limited[tag] = queue
            try:
                # Decoded strictly: kombu would replace invalid characters.
                self.connection._deliver(loads(raw.decode()), queue)  # noqa: SLF001  # the transport's way in, as kombu's own channel uses it
            except self._broker_errors:
                raise
            except Exception as problem:  # noqa: BLE001  # whatever it is: raised from here it would end the worker, and the next
                _logger.info("%s reason=%s", Event.TRANSPORT_MESSAGE_UNDELIVERABLE, type(problem).__name__)
                self.set_aside(tag, self.global_keyprefix + queue, raw)
                self.qos.drop(tag)
            if monotonic() >= until:
                break

    def _settle(self) -> None:
        """Read the open answer and put its undelivered messages back in their places, in order."""
        if self._in_poll:
            self._in_poll._sock.settimeout(SETTLE_SECONDS)  # noqa: SLF001  # as Celery bounds the same socket
            with suppress(Empty):
                self._read_round()
        while self._inbox:
            queue, tag, raw = self._inbox.pop()
            if tag:
                self.qos.restore_by_tag(tag)
            else:
                self._commands.rpush(queue, raw)

    def _watch(self, step: Callable[..., Any], *args: Any) -> Any:
        """Run one step that uses the broker; remember a lost connection, because closing then differs."""
        try:
            return step(*args)
        except self.connection_errors:
            self._lose()
            raise

    def _lose(self) -> None:
        self._abandon_round()
        self._is_script_known = False
        self._ready.update(self._queue_cycle.items)
        if self.connection is not None:
            self.connection.is_lost = True
        client = self.__dict__.get("client")
        if client is not None and client.connection is not None:
            client.connection.disconnect()

    def _guarded(self, step: Callable[[], Any]) -> bool:
        try:
            step()
        except Exception as problem:  # noqa: BLE001  # an error that leaves close() ends the worker (celery: "Unrecoverable error")
            _logger.info("%s reason=%s", Event.TRANSPORT_CLOSE_STEP_FAILED, type(problem).__name__)
            return False
        return True

    def _handle_message(self, client: Any, r: Any) -> Any:
        """Read a broadcast; kombu would log the text of one that is not JSON."""
        broadcast = super()._handle_message(client, r)
        try:
            loads(bytes_to_str(broadcast["data"]))
        except (TypeError, ValueError, RecursionError):
            return {**broadcast, "data": None}
        return broadcast

    def _deliver_fanout_message(self, message: Any, exchange: str) -> Any:
        """Deliver a broadcast; an unreadable one is dropped."""
        try:
            return super()._deliver_fanout_message(message, exchange)
        except self._broker_errors:
            raise
        except Exception as problem:  # noqa: BLE001  # raised from here it would end the worker
            _logger.warning("%s reason=%s", Event.TRANSPORT_BROADCAST_UNREADABLE, type(problem).__name__)
            return True

    def _poll_error(self, type: str, **_: Any) -> None:  # noqa: A002  # kombu's signature
        self.handlers[type]()

    def _on_connection_disconnect(self, connection: Any) -> None:
        if os.getpid() != self._owner_pid:
            # A forked child shares the parent's poller: removing a socket here would remove it for the parent.
            return
        for waiter in self._waiters.values():
            if waiter.connection is connection:
                waiter.wait_started_at = None
        if self._in_poll is connection:
            # Kombu drops a connection whose server was silent for too long, and would forget what was asked over it.
            self._abandon_round()
        super()._on_connection_disconnect(connection)


class UnreadableMessage:
    """The oldest message on the list, which stays there until ``remove``.

    Attributes:
        queue: its queue; empty if unknown.
        size: in bytes.
    """

    def __init__(self, channel: Channel, first: bytes, size: int, digest: str) -> None:
        self._channel = channel
        self._digest = digest
        name, separator, _ = first[:_QUEUE_BYTES].partition(b"\n")
        is_named = bool(separator) and name.isascii()
        self.queue = name.decode().removeprefix(channel.global_keyprefix) if is_named else ""
        self._skipped = len(name) + 1 if is_named else 0
        self.size = size - self._skipped
        self._first = first

    def pieces(self) -> Iterator[bytes]:
        """Yield the message, one piece after the other.

        Raises:
            RuntimeError: another worker removed it meanwhile.
        """
        check, place, piece = sha1(usedforsecurity=False), 0, self._first
        while piece:
            check.update(piece)
            yield piece[self._skipped if place == 0 else 0 :]
            place += len(piece)
            if place >= self._skipped + self.size:
                break
            (piece,) = self._channel.run(PIECE, (self._channel.unreadable_key,), (place, PIECE_BYTES)) or (b"",)
        if check.hexdigest() != self._digest:
            raise RuntimeError("another worker removed the message")

    def remove(self) -> None:
        """Remove the message from the broker: it is kept elsewhere."""
        self._channel.run(REMOVE, (self._channel.unreadable_key,), (self._digest,))


class UnreadableMessages:
    """The list of one channel's broker; other workers put messages there, and take them away, too."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        #: Whether there may be messages: at first because earlier workers may have left some.
        self.may_wait = True

    def note(self, count: int) -> None:
        """Remember that messages were set aside."""
        self.may_wait = True
        _logger.error("%s count=%d list=%s", Event.TRANSPORT_MESSAGE_UNREADABLE, count, self._channel.unreadable_key)

    def oldest(self) -> UnreadableMessage | None:
        """Return the oldest one, or None."""
        first, *about = self._channel.run(PIECE, (self._channel.unreadable_key,), (0, PIECE_BYTES)) or (None,)
        if first is None:
            self.may_wait = False
            return None
        size, digest = about
        return UnreadableMessage(self._channel, first, size, bytes_to_str(digest))
