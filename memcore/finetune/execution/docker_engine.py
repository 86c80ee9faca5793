"""Connects to the Docker engine of DOCKER_HOST or this machine, with retries, one-sentence errors, and its streams."""

import contextlib
import logging
import os
import selectors
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from memcore.errors import FineTuneDependencyError, FineTuneStageError
from memcore.finetune.execution.protocol import CHUNK, Chunks
from memcore.telemetry.events import Event

#: How long the engine may take for an answer, in seconds; attempts to reach it; the first pause, which then doubles.
API_TIMEOUT = 30
ATTEMPTS = 3
_FIRST_PAUSE = 0.5

#: Longest part of its answers that a message repeats, in characters.
_MAX_CHARS = 300

_log = logging.getLogger(__name__)


def docker_library() -> Any:
    """Return the library; raises FineTuneDependencyError when it is not installed."""
    try:
        return import_module("docker")
    except ImportError as error:
        raise FineTuneDependencyError("the Docker library is missing: pip install 'memtend[docker]'") from error


def docker_errors() -> tuple[type[Exception], ...]:
    """Return what the library raises when the engine, or the way to it, refuses."""
    return docker_library().errors.DockerException, import_module("requests").exceptions.RequestException


@contextmanager
def docker_engine(*, pause: Callable[[float], None] = time.sleep) -> Iterator[Any]:
    """Connect within the block to the engine that DOCKER_HOST, DOCKER_TLS_VERIFY ... name, as Docker's own commands do.

    Raises FineTuneDependencyError without the library, and FineTuneStageError when no engine answers, or it refuses.
    """
    troubles = docker_errors()
    client = _connected(troubles, pause)
    try:
        yield client
    except troubles as error:
        raise FineTuneStageError(_error_of(error)) from error
    finally:
        client.close()


def _connected(troubles: tuple[type[Exception], ...], pause: Callable[[float], None]) -> Any:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # Asking for the version shows whether it answers.
            return docker_library().from_env(timeout=API_TIMEOUT, version="auto")
        except troubles as error:
            if attempt == ATTEMPTS:
                raise FineTuneStageError(f"no Docker engine answers, asked {ATTEMPTS} times") from error
            _log.warning(
                Event.FINE_TUNE_DOCKER_CONNECT_RETRIED, extra={"attempt": attempt, "error": type(error).__name__}
            )
            pause(_FIRST_PAUSE * 2 ** (attempt - 1))
    raise AssertionError


def _error_of(error: Exception) -> str:
    if isinstance(error, import_module("requests").exceptions.RequestException):
        # The engine's own answers are of this kind too; those explain themselves.
        said = getattr(error, "explanation", None)
        if not said:
            return f"the Docker engine was lost: {type(error).__name__}"
    else:
        said = error
    return f"the Docker engine refused: {' '.join(str(said).split())[:_MAX_CHARS]}"


#: The header of each piece: which output it is of, and its length in bytes.
_HEADER = struct.Struct(">BxxxL")

_NAMES = {1: "output", 2: "errors"}


class FrameParser:
    """Parses the stream cut at any byte; memory is bounded, since a frame is passed on in the pieces that come."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self._name: str | None = None

    def feed(self, chunk: bytes) -> Chunks:
        """Return what the chunk holds of each output, in order; frames of other streams are passed over."""
        found: Chunks = []
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
    """Reads an attached container without waiting for it; the library hands out a socket, or a file of one."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._selector = selectors.DefaultSelector()
        self._selector.register(socket, selectors.EVENT_READ)
        self._parser = FrameParser()
        self.is_over = False

    def read(self, seconds: float) -> Chunks:
        """Return what there is, after at most so long; ``is_over`` when nothing more comes, for whatever reason."""
        if self.is_over:
            time.sleep(seconds)
            return []
        # What TLS has decrypted already does not show in the kernel.
        pending = getattr(self._socket, "pending", None)
        if (pending is None or not pending()) and not self._selector.select(seconds):
            return []
        try:
            chunk = self._socket.recv(CHUNK) if pending is not None else os.read(self._socket.fileno(), CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        self.is_over = not chunk
        return self._parser.feed(chunk)

    def close(self) -> None:
        """Close the connection."""
        self._selector.close()
        # The library hangs the response on its socket, and that holds the connection.
        with contextlib.suppress(OSError):
            getattr(self._socket, "_response", self._socket).close()
