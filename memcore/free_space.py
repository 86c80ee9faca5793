"""Free space on a disk: new work is refused before the disk is full, so that what was accepted can be finished.

A check costs two microseconds, so it precedes every job and every write.
"""

import errno
import os
from pathlib import Path

from memcore.errors import MemoryDiskFullError

#: Bytes that stay free of new jobs (128 MiB): the jobs that wait already still need room in the store, in the ledger
#: and in the broker's log.
FOR_JOBS = 134_217_728

#: Bytes that stay free of writes to the store (32 MiB, its largest request): its engine writes through memory maps, and
#: the system kills a process that touches a page for which there is no room.
FOR_WRITES = 33_554_432

#: Bytes that stay free of removals from the store (4 MiB): the log grows by them too, if little.
FOR_REMOVALS = 4_194_304

#: What the system says when there is no room: the disk is full, or the user's share of it.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def refuse_when_low(folder: Path, *, least: int) -> None:
    """Raise MemoryDiskFullError when the folder's disk has fewer free bytes than that; a missing folder passes."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return
    free = status.f_bavail * status.f_frsize
    # No blocks at all: no disk, but a folder of the system's own.
    if status.f_blocks and free < least:
        space = f"{free // 2**20} MiB are free, and {least // 2**20} MiB must stay so"
        raise MemoryDiskFullError(f"the disk of {folder} is full: {space}; nothing new is taken until there is room")


def is_disk_full(error: BaseException) -> bool:
    """Tell whether the system failed for want of room on a disk."""
    return isinstance(error, OSError) and error.errno in _FULL
