"""Two folders that change places: whoever looks sees the one or the other, never a part of each."""

import ctypes
import errno
import os
from pathlib import Path

#: "These paths are absolute or relative to the working folder", and "let the two change places" (Linux, renameat2(2)).
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

#: Answers of a system or a file system that knows no exchange.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV})


def swap(new: Path, old: Path, *, aside: Path) -> None:
    """Put ``new`` in the place of ``old``, which may not exist yet and then stands in the place of ``new``.

    One step where the system can exchange two names (Linux). Elsewhere the old one is moved ``aside`` for a moment; a
    crash in this moment leaves it there, and :func:`restore` brings it back.

    Raises OSError.
    """
    if not os.path.lexists(old):
        new.rename(old)
    elif not _exchanged(new, old):
        old.rename(aside)
        new.rename(old)
        aside.rename(new)


def restore(old: Path, *, aside: Path) -> None:
    """Bring back what a crash left aside. Raises OSError."""
    if os.path.lexists(aside) and not os.path.lexists(old):
        aside.rename(old)


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
