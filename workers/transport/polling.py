"""The poller, which watches a transport's sockets, and the queue waiter, a blocking peek at one queue."""

from queue import Empty
from time import monotonic
from typing import Any

from kombu.transport import redis
from redis.exceptions import ConnectionError, ResponseError  # noqa: A004  # the client names it so

#: Longest wait of a consumer without an event loop, in seconds; between waits it checks overdue messages and its clock.
LONGEST_WAIT_SECONDS = 1.0


class Poller(redis.MultiChannelPoller):  # type: ignore[misc]  # kombu is untyped
    """Drives the channels of one transport, with or without Celery's event loop.

    A channel asks for no more messages than it may take, so unlike kombu's a socket is never paused: acknowledgements
    are answered even while the prefetch window is full.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unseen: set[int] = set()

    def on_poll_start(self) -> None:
        """Let every channel send what is due."""
        for channel in tuple(self._channels):
            channel.advance(self)
            if channel.active_fanout_queues:
                self._register_LISTEN(channel)

    def attach(self, channel: Any, client: Any, kind: str) -> None:
        """Connect a client where needed and watch its socket."""
        if not self._client_registered(channel, client, kind):
            self._register(channel, client, kind)

    @property
    def fds(self) -> dict[int, Any]:
        """The sockets that the event loop does not know yet: kombu's hook adds all of these on every tick."""
        unseen, self._unseen = self._unseen, set()
        return {fileno: self._fd_to_chan[fileno] for fileno in unseen if fileno in self._fd_to_chan}

    def enter_event_loop(self) -> None:
        """Register every socket again: the event loop polls with its own poller."""
        self._unseen.update(self._fd_to_chan)

    def on_readable(self, fileno: int) -> Any:
        """Let the socket's channel read it; an unknown socket belonged to a dropped connection."""
        channel, kind = self._fd_to_chan.get(fileno, (None, ""))
        if channel is None:
            raise Empty
        return channel.handlers[kind]()

    def get(self, callback: Any, timeout: float | None = None) -> Any:
        """Wait for one event without an event loop; overdue messages are handled in between."""
        return super().get(callback, LONGEST_WAIT_SECONDS if timeout is None else min(timeout, LONGEST_WAIT_SECONDS))

    def maybe_check_brpop_health(self) -> None:
        """Drop connections whose answer is overdue: a half-open socket never becomes readable."""
        super().maybe_check_brpop_health()
        for channel in tuple(self._channels):
            channel.drop_stale_waiters()

    def renew(self) -> None:
        """Renew the leases of every channel's messages; the event loop notices a broken connection."""
        for channel in tuple(self._channels):
            try:
                channel.qos.renew()
            except channel.connection_errors:
                return

    def _register(self, channel: Any, client: Any, type: str) -> None:  # noqa: A002  # kombu's signature
        super()._register(channel, client, type)
        self._unseen.add(self._chan_to_sock[channel, client, type].fileno())

    def _on_connection_disconnect(self, connection: Any) -> None:
        for ident, sock in list(self._chan_to_sock.items()):
            if ident[1].connection is connection:
                del self._chan_to_sock[ident]
                self.poller.unregister(sock)
        for fileno, (channel, kind) in list(self._fd_to_chan.items()):
            if not any((one, what) == (channel, kind) for one, _, what in self._chan_to_sock):
                del self._fd_to_chan[fileno]


#: Seconds of one wait at the server: long enough to cost nothing while idle. Closing never waits for it: a waiter holds
#: no message.
WAIT_SECONDS = 5

#: Most bytes (64 KiB) of an answer that are read: it has the whole message, which may be of any size.
ANSWER_BYTES = 65_536

#: What the server says when time ran out, in either version of its protocol.
_TIMES_UP = (b"$-1\r\n", b"*-1\r\n", b"_\r\n")


class QueueWaiter:
    """Blocking peek: waits for a message without removing it. A Lua script cannot block, and BRPOP can lose messages.

    ``BLMOVE queue queue RIGHT RIGHT`` moves the next message onto its own place. Needs Redis 6.2 or any Valkey.
    The poller sees a waiter as a client: it reads ``connection`` and nothing else.
    """

    def __init__(self, *, connection: Any, key: str) -> None:
        """Bind the waiter to one list; nothing is sent before ``start_wait``."""
        self.connection = connection
        self.key = key
        self.wait_started_at: float | None = None

    def start_wait(self) -> None:
        """Start one wait."""
        self.connection.send_command("BLMOVE", self.key, self.key, "RIGHT", "RIGHT", WAIT_SECONDS)
        self.wait_started_at = monotonic()

    def listen(self) -> bool:
        """Read the end of the wait: True when the queue holds a message, False when time ran out.

        Past the parser, which would hold all of a message: one that is longer than ANSWER_BYTES ends the connection,
        and the event loop makes a new one.
        """
        self.wait_started_at = None
        answer = self.connection._sock.recv(ANSWER_BYTES)  # noqa: SLF001  # see above
        if not answer:
            raise ConnectionError("the server closed the connection")
        if answer in _TIMES_UP:
            return False
        line, _, rest = answer.partition(b"\r\n")
        if line.startswith(b"-"):
            raise ResponseError(line[1:].decode(errors="replace"))
        if len(rest) != int(line[1:] if line[1:].isdigit() else -1) + len(b"\r\n"):
            self.close()
        return True

    def is_overdue(self, *, grace_seconds: float) -> bool:
        """Tell whether the server's answer is so late that the connection must be dead."""
        return self.wait_started_at is not None and monotonic() - self.wait_started_at > WAIT_SECONDS + grace_seconds

    def close(self) -> None:
        """Drop the connection, in the middle of a wait or not."""
        self.wait_started_at = None
        self.connection.disconnect()
