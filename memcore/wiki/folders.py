"""An agent's folder of the wiki: written anew beside the present one, then put in its place atomically."""

import asyncio
import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import string
from contextlib import suppress
from pathlib import Path
from typing import Self

#: "These paths are absolute or relative to the working folder", and "let the two change places" (Linux, renameat2(2)).
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

#: Error numbers of a system or a file system without the exchange.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV})


def atomic_replace(new: Path, old: Path, *, aside: Path) -> None:
    """Exchange ``new`` and ``old``; where ``old`` does not exist, ``new`` is moved there.

    One step where the system can exchange two names (Linux). Elsewhere the old one is moved ``aside`` for a moment; a
    crash in this moment leaves it there, and the next export brings it back. Raises OSError.
    """
    if not os.path.lexists(old):
        new.rename(old)
    elif not _exchanged(new, old):
        old.rename(aside)
        new.rename(old)
        aside.rename(new)


def _exchanged(new: Path, old: Path) -> bool:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    # The result stays 0 on success; anything else leaves the reason in errno.
    if rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(old))


#: Kept as they are. Capitals are not: "Ada" and "ada" are one name to some file systems. Dots are not, so that no id
#: is "..", hidden, or looks like ``index.md``.
_PLAIN = frozenset(string.ascii_lowercase + string.digits + "_-")

#: Longest name, in characters; file systems end at 255 bytes, and an ending and a dot come on top.
MAX_CHARS = 200

#: Characters kept for people of a name that is too long; its hash follows.
_READABLE_CHARS = 120


def slug(key: str) -> str:
    """Return the name: lower-case letters, digits, ``_`` and ``-`` as they are, every other byte as ``=`` and its hex.

    A name that becomes too long keeps its beginning and ends in ``=-`` and a hash of the whole; no other name has
    ``=-`` in it.
    """
    parts = (
        letter if letter in _PLAIN else "".join(f"={byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))
        for letter in key
    )
    plain = "".join(parts)
    if len(plain) <= MAX_CHARS:
        return plain
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{plain[:_READABLE_CHARS]}=-{digest}"


class WikiBusyError(OSError):
    """Another export of this agent is under way."""


class AgentFolder:
    """Writes an agent's files; until :meth:`publish` nobody sees any of them, and without it they are dropped.

    Names in the root that begin with a dot belong to exports, present or crashed: the lock of each agent, files being
    written, and on some systems what stands aside for a moment. The lock's holder removes what a crash has left. No
    link is ever followed: one in the place of our file is replaced. Entering makes the root, and raises WikiBusyError
    when another export of this agent is under way.
    """

    def __init__(self, root: Path, agent_id: str) -> None:
        name = slug(agent_id)
        self._root = root
        self._path = root / name
        self._new = root / f".{name}.new"
        self._aside = root / f".{name}.aside"
        self._lock_path = root / f".{name}.lock"
        self._lock = -1
        self._made: set[str] = set()
        self.cleaned = 0

    def add(self, place: str, content: bytes) -> None:
        """Write a file and wait until it is on the disk; several threads may write at a time. Raises OSError.

        Its place is its name, or its folder's and its own with a slash between, made of :func:`slug`'s.
        """
        folder, _, name = place.rpartition("/")
        if folder and folder not in self._made:
            (self._new / folder).mkdir(exist_ok=True)
            self._made.add(folder)
        write_durably(self._new / folder / name, content)

    def publish(self) -> None:
        """Put what was written in the place of the agent's folder. Raises OSError; then the old one stays."""
        for folder in (*sorted(self._made), ""):
            sync_folder(self._new / folder)
        atomic_replace(self._new, self._path, aside=self._aside)
        sync_folder(self._root)

    def remove(self) -> None:
        """Remove the agent's folder and its lock, for good. Raises OSError."""
        if os.path.lexists(self._path):
            # Atomically too: a crash must not leave a part of it to readers.
            drop(self._new)
            self._path.rename(self._new)
        drop(self._lock_path)
        sync_folder(self._root)

    def __enter__(self) -> Self:
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock = lock_file(self._lock_path)
        try:
            if os.path.lexists(self._aside) and not os.path.lexists(self._path):
                # A crash between the two moves of atomic_replace.
                self._aside.rename(self._path)
            self.cleaned = drop(self._new) + drop(self._aside)
            self._new.mkdir()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        # What was not published, or was replaced. What cannot be removed now is removed by the next export.
        with suppress(OSError):
            drop(self._new)
        os.close(self._lock)

    async def __aenter__(self) -> Self:
        # In threads: removing thousands of old files takes the disk a while.
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.__exit__)


def lock_file(path: Path, *, wait: bool = False) -> int:
    """Open and lock a file, and return its descriptor: closing it releases the lock, and so does the process's end.

    Raises WikiBusyError, unless it may wait; OSError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise WikiBusyError("another export of this agent is under way") from None
        raise
    return descriptor


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk; raises OSError, also when the name is taken, if by a link."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the folder's names are on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def drop(path: Path) -> int:
    """Remove a folder, a file or a link, whatever stands there, and return whether there was one, as 0 or 1."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return 0
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)  # removes links and never follows one
    else:
        path.unlink()
    return 1
