"""A stack that runs for as long as a block lasts, on a folder that is kept or in a temporary one."""

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from memcore.errors import MemoryConfigError
from workers.stack.stack import Stack, start_stack
from workers.stack.supervisor import take_over

#: Seconds between two ticks of beat in a throw-away stack: no run begins by itself.
_NO_TICK_SECONDS = 3_600.0

#: Variables that such a stack takes: what embeds and what answers. It knows no store, database or address of another.
_TAKEN = ("MEMTEND_EMBEDDER", "MEMTEND_LLM_")

#: How the folder of such a stack is named, among the system's temporary ones.
_PREFIX = "memtend-throwaway-"

#: How a folder is opened to lock it: what is none, or leads to another, is left alone.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def running_stack(
    home: Path, environ: Mapping[str, str], *, tick_seconds: float, also: Collection[str] = ()
) -> Iterator[Stack]:
    """Yield a stack that runs on a folder, and stop it when the block ends.

    ``also`` names worker groups besides those of every stack. Raises as ``start_stack`` does.
    """
    stack = start_stack(home, environ, tick_seconds=tick_seconds, also=also)
    watcher = threading.Thread(target=stack.supervisor.watch, name="watch")
    watcher.start()
    try:
        yield stack
    finally:
        stack.supervisor.ask_to_stop()
        watcher.join()
        stack.stop()


@contextmanager
def throwaway_stack(policy: str | None = None, environ: Mapping[str, str] = os.environ) -> Iterator[Stack]:
    """Yield a stack that has its own stores in a folder of its own; both are gone when the block ends.

    A killed process cannot remove its own: the next one does. ``policy`` is the text of its policy file, or else it has
    the starter policy. Raises as ``start_stack`` does.
    """
    remove_left_behind()
    before = os.umask(0o077)
    try:
        home, lock = _new_home()
        try:
            if policy is not None:
                (home / "policy.yaml").write_text(policy, encoding="utf-8")
            taken = {
                name: value
                for name, value in environ.items()
                if not name.startswith("MEMTEND_") or name.startswith(_TAKEN)
            }
            with running_stack(home, taken, tick_seconds=_NO_TICK_SECONDS) as stack:
                yield stack
        finally:
            shutil.rmtree(home, ignore_errors=True)
            os.close(lock)
    finally:
        os.umask(before)


def remove_left_behind() -> None:
    """End the throw-away stacks whose process was killed, and remove their folders; those in use are left alone."""
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # Another user's, one in use, or one that another process removes meanwhile.
        with suppress(OSError, MemoryConfigError):
            lock = os.open(home, _FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if (home / "run").is_dir():
                    # The parts live on without their supervisor: taking its place ends them.
                    os.close(take_over(home))
                shutil.rmtree(home, ignore_errors=True)
            finally:
                os.close(lock)


def _new_home() -> tuple[Path, int]:
    """Return a new folder, and the handle that says that it is in use for as long as this process lives."""
    while True:
        home = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):
            lock = os.open(home, _FOLDER)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if home.is_dir():
                return home, lock
            # Another process took it for one that was left behind before it was locked.
            os.close(lock)
