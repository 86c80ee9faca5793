"""A runner without its worker: nobody hears it any more, so it ends itself, and what it has started."""

import os
import signal
import threading
from collections.abc import Mapping

#: The variable in which an executor tells the runner that it starts its own process id.
PARENT = "MEMTEND_FINE_TUNE_PARENT"

#: Seconds between two looks.
_POLL = 1.0


def end_with_parent(environment: Mapping[str, str]) -> None:
    """Watch the process that the environment names, and end this one's group when it is gone; does nothing without."""
    told = environment.get(PARENT, "")
    # Whoever leads no group of its own would take its caller's with it.
    if told.isdigit() and os.getpgrp() == os.getpid():
        threading.Thread(target=_watch, args=(int(told),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    idle = threading.Event()
    while os.getppid() == parent:
        idle.wait(_POLL)
    os.killpg(os.getpgrp(), signal.SIGKILL)
