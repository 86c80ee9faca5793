"""The lock that makes one process the owner of a data folder."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from memcore.errors import MemoryConfigError

#: Name of the lock file; the kernel drops the lock with the process, however that ends: a left-over file is harmless.
_LOCK_FILE = "store.lock"


class Ownership:
    """Exclusive ownership of a data folder for as long as the context is open.

    Args:
        folder: the data folder; it is created when missing.

    Raises:
        MemoryConfigError: on entering, when another process owns the folder; the message names it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle = -1

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._handle = os.open(self._folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._handle, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._handle)
            message = f"{self._folder} is owned by another store server (pid {owner}): use that one, or stop it first."
            raise MemoryConfigError(message) from None
        # For people alone: on a full disk there may be no room for it.
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, str(os.getpid()).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)
