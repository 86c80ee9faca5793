"""Who holds a message: the name of a process, by which other processes of its machine know that it has died.

A dead worker's messages need not wait for the visibility timeout where somebody knows for certain that it is dead. Only
the machine knows: a name holds the machine's boot and the process namespace, in which a process id and its start time
name one process for good. Of a process elsewhere nothing is known, and the visibility timeout decides.
"""

import os
import socket
from functools import cache
from hashlib import blake2b
from pathlib import Path

_PROC = Path("/proc")

#: Bytes of the digest that names machine and namespace.
_PLACE_BYTES = 12

#: States of a process that has ended, whether or not its parent has been told (proc(5)).
_ENDED = frozenset("ZXx")


def holder_of(pid: int) -> str:
    """Return the name of a living process of this machine; empty where the system cannot tell (not on Linux)."""
    place, start = _place(), _start_of(pid)
    return f"{place}:{pid}:{start}" if place and start else ""


def is_dead(holder: str) -> bool:
    """Tell whether the process of this name ran here and has ended; False wherever that is not certain."""
    place, _, process = holder.partition(":")
    pid, _, start = process.partition(":")
    if not place or place != _place() or not pid.isdecimal() or not start:
        return False
    found = _start_of(int(pid))
    return found != start and (bool(found) or not _is_there(int(pid)))


@cache
def _place() -> str:
    """Return the name of this boot of this machine and of the process namespace; empty where it cannot be told."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    # The host name too: sandboxes that show all their containers one kernel still give each a name of its own.
    return blake2b(f"{socket.gethostname()} {boot} {namespace}".encode(), digest_size=_PLACE_BYTES).hexdigest()


def _start_of(pid: int) -> str:
    """Return when the process with this id started, in ticks since the boot; empty when it has ended, or is hidden."""
    try:
        # Behind the program's name, which may hold anything, a bracket too.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return ""
    # The 3rd and the 22nd field of proc(5).
    return "" if fields[0] in _ENDED else fields[19]


def _is_there(pid: int) -> bool:
    """Tell whether another user's process has this id: ``/proc`` may hide those (mount option hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    # Ours, and not hidden: it has ended, and its parent was not told yet; or it has just begun.
    return False
