"""What a container says, as the engine sends it: both outputs in one stream, in frames that say whose they are."""

import contextlib
import os
import selectors
import struct
import time
from typing import Any, Self

_CHUNK = 65_536

#: Before each piece: which output it is of, and its length in bytes.
_HEADER = struct.Struct(">BxxxL")

_NAMES = {1: "output", 2: "errors"}


class FrameParser:
    """Take the stream cut at any byte; memory is bounded, since a frame is passed on in the pieces that come."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self._name: str | None = None

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Return what the chunk holds of each output, in order; frames of other streams are passed over."""
        found: list[tuple[str, bytes]] = []
        while chunk:
            if not self._left:
                wanted = _HEADER.size - len(self._header)
                self._header, chunk = self._header + chunk[:wanted], chunk[wanted:]
                if len(self._header) == _HEADER.size:
                    number, self._left = _HEADER.unpack(self._header)
                    self._name, self._header = _NAMES.get(number), b""
                continue
            piece, chunk = chunk[: self._left], chunk[self._left :]
            self._left -= len(piece)
            if self._name is not None:
                found.append((self._name, piece))
        return found


class Frames:
    """Read an attached container without waiting for it; use it as a context manager.

    Args:
        socket: the connection as the engine's library hands it out: a socket, or a file of one.
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._selector = selectors.DefaultSelector()
        self._selector.register(socket, selectors.EVENT_READ)
        self._parser = FrameParser()
        self.is_over = False

    def read(self, seconds: float) -> list[tuple[str, bytes]]:
        """Return what there is, after at most so long; ``is_over`` when nothing more comes, for whatever reason."""
        if self.is_over:
            time.sleep(seconds)
            return []
        # What TLS has decrypted already does not show in the kernel.
        pending = getattr(self._socket, "pending", None)
        if (pending is None or not pending()) and not self._selector.select(seconds):
            return []
        try:
            chunk = self._socket.recv(_CHUNK) if pending is not None else os.read(self._socket.fileno(), _CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        self.is_over = not chunk
        return self._parser.feed(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._selector.close()
        # The library hangs the response on its socket, and that holds the connection.
        with contextlib.suppress(OSError):
            getattr(self._socket, "_response", self._socket).close()
