"""A connection that waits for a message without taking it, because a script cannot wait and a blocking pop can lose."""

from time import monotonic
from typing import Any

from redis.exceptions import ConnectionError, ResponseError  # noqa: A004  # redis names them so

#: Seconds one wait lasts at the server. Long enough to cost nothing while idle; closing never waits for it, because a
#: bell holds no message.
WAIT_SECONDS = 5

#: Bytes (64 KiB) of an answer that are read at most: it brings the whole message, which may be of any size.
ANSWER_BYTES = 65_536

#: What the server says when time ran out, in either version of its protocol.
_TIMES_UP = (b"$-1\r\n", b"*-1\r\n", b"_\r\n")


class Bell:
    """Rings when its queue holds a message: ``BLMOVE queue queue RIGHT RIGHT`` moves the next one onto its own place.

    Needs Redis 6.2 or any Valkey. The poller sees a bell as a client: it reads ``connection`` and nothing else.
    """

    def __init__(self, *, connection: Any, key: str) -> None:
        """Bind the bell to one list; nothing is sent before ``arm``."""
        self.connection = connection
        self.key = key
        self.armed_at: float | None = None

    def arm(self) -> None:
        """Start one wait."""
        self.connection.send_command("BLMOVE", self.key, self.key, "RIGHT", "RIGHT", WAIT_SECONDS)
        self.armed_at = monotonic()

    def listen(self) -> bool:
        """Read the end of the wait: True when the queue holds a message, False when time ran out.

        Past the parser, which would hold all of a message: one that is longer than ANSWER_BYTES ends the connection,
        and the event loop makes a new one.
        """
        self.armed_at = None
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
        """Tell whether the server owes an answer for so long that the connection must be dead."""
        return self.armed_at is not None and monotonic() - self.armed_at > WAIT_SECONDS + grace_seconds

    def close(self) -> None:
        """Drop the connection, in the middle of a wait or not."""
        self.armed_at = None
        self.connection.disconnect()
