"""A connection that waits for a message without taking it, because a script cannot wait and a blocking pop can lose."""

from time import monotonic
from typing import Any

#: Seconds one wait lasts at the server. Long enough to cost nothing while idle; closing never waits for it, because a
#: bell holds no message.
WAIT_SECONDS = 5


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
        """Read the end of the wait: True when the queue holds a message, False when time ran out."""
        self.armed_at = None
        return self.connection.read_response() is not None

    def is_overdue(self, *, grace_seconds: float) -> bool:
        """Tell whether the server owes an answer for so long that the connection must be dead."""
        return self.armed_at is not None and monotonic() - self.armed_at > WAIT_SECONDS + grace_seconds

    def close(self) -> None:
        """Drop the connection, in the middle of a wait or not."""
        self.armed_at = None
        self.connection.disconnect()
