"""The children of a worker's pool: one that shows no life is ended, and its job goes to another.

A child that is frozen keeps what it holds: its job, and where the database is SQLite perhaps everybody's turn to write.
"""

import logging
import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from mmap import mmap
from signal import SIGKILL

import psutil
from billiard.process import current_process

from memcore.telemetry.events import Event
from workers.health import BEAT_SECONDS, FROZEN_SECONDS, LifeWatch

#: Children that are watched; those beyond are not.
_MOST = 1024

#: A child's sign of life: its pid, and how often it has shown life.
_SIGN = struct.Struct("=qq")

log = logging.getLogger("memtend.stack")


class Children:
    """Shared by a worker and the children that it forks: they show life, and it ends those that do not.

    Args:
        monotonic: the time of the worker, in seconds.
        pause_seconds: between two signs of a child.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic, pause_seconds: float = BEAT_SECONDS) -> None:
        self._signs = mmap(-1, _MOST * _SIGN.size)
        self._watch = LifeWatch(monotonic)
        self._pause_seconds = pause_seconds

    def show_life(self) -> None:
        """Show from now on that this process, a child of the pool, lives; from a thread."""
        index: int = getattr(current_process(), "index", 0)  # a pool gives it to its children
        if index < _MOST:
            threading.Thread(target=self._show, args=(index,), name="signs-of-life", daemon=True).start()

    def _show(self, index: int) -> None:
        pid, shown = os.getpid(), 0
        while True:
            _SIGN.pack_into(self._signs, index * _SIGN.size, pid, shown)
            shown += 1
            time.sleep(self._pause_seconds)

    def end_frozen(self) -> None:
        """Kill every child that has shown no life for too long; its pool then starts another."""
        found = {pid: (count, at) for at, (pid, count) in enumerate(_SIGN.iter_unpack(self._signs)) if pid}
        for pid in self._watch.frozen({pid: (count, FROZEN_SECONDS) for pid, (count, _) in found.items()}):
            _SIGN.pack_into(self._signs, found[pid][1] * _SIGN.size, 0, 0)
            # One that ended left its sign behind, and its pid may be another's by now.
            with suppress(psutil.NoSuchProcess):
                child = psutil.Process(pid)
                if child.ppid() == os.getpid() and child.status() != psutil.STATUS_ZOMBIE:
                    log.warning(Event.WORKER_CHILD_FROZEN, extra={"pid": pid})
                    child.send_signal(SIGKILL)
