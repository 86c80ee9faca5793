"""A stack that runs for as long as a block lasts, on a folder that is kept or in a temporary one."""

import os
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from workers.stack.stack import Stack, start_stack

#: Seconds between two ticks of beat in a throw-away stack: no run begins by itself.
_NO_TICK_SECONDS = 3_600.0

#: Variables that such a stack takes: what embeds and what answers. It knows no store, database or address of another.
_TAKEN = ("MEMTEND_EMBEDDER", "MEMTEND_LLM_")


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

    ``policy`` is the text of its policy file, or else it has the starter policy. Raises as ``start_stack`` does.
    """
    before = os.umask(0o077)
    try:
        home = Path(tempfile.mkdtemp(prefix="memtend-"))
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
    finally:
        os.umask(before)
