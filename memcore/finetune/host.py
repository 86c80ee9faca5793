"""What names a machine since it was started: processes are told apart by their numbers within it alone."""

import socket
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_host() -> str:
    """Return this machine's name, with what tells its starts apart; a container has a name of its own."""
    try:
        boot = _BOOT.read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()}:{boot}"
