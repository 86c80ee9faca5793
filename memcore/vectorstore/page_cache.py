"""Gives back the pages of files that the engine read when it opened a shard, and seldom needs again.

The engine maps every file of a segment and reads it whole when it opens it, holes included: four MiB for each payload
index, although it builds the index in memory of its own. That is 112 MiB for each collection of a company with a single
memory, measured on 2026-11-27; a machine with 200 companies would fill 21 GiB after a restart.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: The kernel's number of MADV_DONTNEED, the same on every Linux.
_DONTNEED = 4

#: What the kernel tells of this process's mappings; there is no such file elsewhere, and then nothing is given back.
_MAPS = Path("/proc/self/maps")

#: Part of the path of a payload index, whose files are read at the start and written to afterwards, never searched.
_INDEX = b"/payload_index/"


class _Mapping(NamedTuple):
    start: int
    length: int
    path: bytes


def release_pages(folder: Path) -> int:
    """Unmap the resident pages of all shared mappings of files below a folder; return how many mappings those are.

    Nothing is lost: changed pages stay in the kernel's cache until they are written, and what is needed again is read
    again. Clean pages of payload indexes leave the kernel's cache, too.
    """
    mappings = list(_shared_below(folder))
    if not mappings:
        return 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for each in mappings:
        madvise(each.start, each.length, _DONTNEED)  # a hint: one that fails costs memory and nothing else
    for path in {each.path for each in mappings if _INDEX in each.path}:
        with suppress(OSError):
            _drop_from_cache(path)
    return len(mappings)


def _drop_from_cache(path: bytes) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _shared_below(folder: Path) -> Iterator[_Mapping]:
    root = os.fsencode(folder.resolve()) + b"/"
    try:
        lines = _MAPS.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        place, rights, *_, path = line.split(None, 5)
        # Only shared mappings of files: a private one would lose what was written to it.
        if path.startswith(root) and rights.endswith(b"s"):
            start, end = (int(number, 16) for number in place.split(b"-"))
            yield _Mapping(start=start, length=end - start, path=path)
