"""Acknowledgements that wait for the next turn, so that many travel in one command."""

from collections import deque
from itertools import islice

#: Tags in one command. Lua's ``unpack`` fails near 8,000 values and a turn should stay well under a millisecond at
#: the server.
GROUP_SIZE = 500


class Acks:
    """The tags acknowledged by jobs and not yet told to the broker.

    Adding is safe from any thread. An acknowledgement sent twice does no harm: the second finds nothing to remove.
    """

    def __init__(self) -> None:
        """Start with nothing to tell."""
        self._waiting: deque[str] = deque()
        self._sent: list[str] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, tag: str) -> None:
        """Hold one tag until the next group is sent."""
        self._waiting.append(tag)

    def send(self) -> list[str]:
        """Take the next group; it stays remembered until ``confirm`` or ``recall``."""
        self._sent = [self._waiting.popleft() for _ in islice(self._waiting.copy(), GROUP_SIZE)]
        return self._sent

    def confirm(self) -> None:
        """Forget the group on its way: the broker answered."""
        self._sent = []

    def recall(self) -> None:
        """Wait again with the group on its way: no answer came, so nobody knows whether the broker read it."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent = []
