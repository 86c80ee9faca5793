"""The broker's list of unreadable messages; its reader keeps them elsewhere, then removes them."""

import logging
from collections.abc import Iterator
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from kombu.utils.encoding import bytes_to_str

from workers.transport.scripts import PIECE, REMOVE

if TYPE_CHECKING:
    from workers.transport.channel import Channel

#: Bytes (8 MiB) of a message that are read at once: a worker needs little more room, however large the message is, and
#: the server copies all of it for each piece.
PIECE_BYTES = 8_388_608

#: Longest queue name in front of a message; an older release wrote none.
_QUEUE_BYTES = 512

_logger = logging.getLogger(__name__)


class UnreadableMessage:
    """The oldest message on the list, which stays there until ``remove``.

    Attributes:
        queue: its queue; empty if unknown.
        size: in bytes.
    """

    def __init__(self, channel: "Channel", first: bytes, size: int, digest: str) -> None:
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

    def __init__(self, channel: "Channel") -> None:
        self._channel = channel
        #: Whether there may be messages: at first because earlier workers may have left some.
        self.may_wait = True

    def note(self, count: int) -> None:
        """Remember that messages were set aside."""
        self.may_wait = True
        _logger.error("transport.message.unreadable count=%d list=%s", count, self._channel.unreadable_key)

    def oldest(self) -> UnreadableMessage | None:
        """Return the oldest one, or None."""
        first, *about = self._channel.run(PIECE, (self._channel.unreadable_key,), (0, PIECE_BYTES)) or (None,)
        if first is None:
            self.may_wait = False
            return None
        size, digest = about
        return UnreadableMessage(self._channel, first, size, bytes_to_str(digest))


def broker_errors(transport: Any) -> tuple[type[Exception], ...]:
    """Return the errors of the broker, not of a message: kombu counts KeyError among a connection's."""
    return tuple(each for each in (*transport.connection_errors, *transport.channel_errors) if each is not KeyError)
