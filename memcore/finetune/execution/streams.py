"""Both outputs of a process, read without waiting for either."""

import os
import selectors
import time
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    import subprocess

_CHUNK = 65_536


class Streams:
    """Read what a process says; use it as a context manager.

    Args:
        process: with pipes as its outputs.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._selector = selectors.DefaultSelector()
        for stream, name in ((process.stdout, "output"), (process.stderr, "errors")):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, name)

    def read(self, seconds: float) -> "list[tuple[str, bytes]]":
        """Return what there is, after at most so long."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return []
        found: list[tuple[str, bytes]] = []
        for key, _ in self._selector.select(seconds):
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            chunk = os.read(stream.fileno(), _CHUNK)
            if chunk:
                found.append((key.data, chunk))
            else:
                self._selector.unregister(stream)
        return found

    def rest(self, seconds: float) -> "list[tuple[str, bytes]]":
        """Return what is left, until the outputs end or nothing comes for so long."""
        found: list[tuple[str, bytes]] = []
        while self._selector.get_map():
            chunks = self.read(seconds)
            if not chunks and self._selector.get_map():
                break
            found += chunks
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._selector.close()
