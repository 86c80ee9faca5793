"""The file in which the embedded stack tells where its parts listen, and how such files are read and written."""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from memcore.errors import MemoryConfigError

#: Largest stack file, in bytes; ours has under 2 KiB, so a larger file is not ours.
MAX_STACK_BYTES = 65_536

#: Read and write for the owner, nothing for anybody else: the file holds passwords.
OWNER_ONLY = 0o600


def stack_path(home: Path) -> Path:
    """Return where the embedded stack of a data folder writes its file."""
    return home / "run" / "stack.json"


def read_stack(home: Path) -> dict[str, Any] | None:
    """Return what the file holds, or None when there is no file and so no embedded stack.

    Raises:
        MemoryConfigError: others may read or write the file, it belongs to somebody else, or it is no JSON object.
    """
    path = stack_path(home)
    try:
        # One handle for the check and the read: a file swapped between the two would escape the check.
        with opened_regular(path) as file:
            _refuse_shared(path, os.fstat(file.fileno()))
            data = file.read(MAX_STACK_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemoryConfigError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from None
    try:
        content = json.loads(data) if len(data) <= MAX_STACK_BYTES else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise MemoryConfigError(f"{path}: should be one JSON object; stop the stack and start it again")
    return content


def write_stack(home: Path, content: Mapping[str, Any]) -> Path:
    """Write the file so that readers see the old one or the new one, whole, and nobody else sees either."""
    path = stack_path(home)
    path.parent.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    write_private(path, json.dumps(content, indent=2, sort_keys=True))
    return path


@contextmanager
def opened_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read; one that is no regular file is refused at once: a pipe would block for ever.

    Raises:
        MemoryConfigError: it is a folder, a pipe or a device.
        OSError: it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise MemoryConfigError(f"{path}: is not a regular file")
    with os.fdopen(handle, "rb") as file:
        yield file


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone, so that readers see the old one or the new one, whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    # O_EXCL: a link laid in the draft's place would have the passwords written elsewhere.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _refuse_shared(path: Path, status: os.stat_result) -> None:
    if os.name != "posix":
        return
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise MemoryConfigError(f"{path}: must be readable by its owner alone; set its mode to 600")
    # Root may serve another user's stack; anybody else would take a stranger's addresses for their own.
    if os.geteuid() not in {status.st_uid, 0}:
        raise MemoryConfigError(f"{path}: belongs to another user")
