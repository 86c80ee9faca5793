"""The demos' stack: started in a folder, watched in the background, stopped at the end."""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from workers.stack.stack import Stack, start_stack

#: Pause between two ticks in a demo, in seconds: nobody wants to wait ten for the run to begin.
_TICK_SECONDS = 1.0


@contextmanager
def running(folder: Path, environ: Mapping[str, str], *, also: Collection[str] = ()) -> Iterator[Stack]:
    """Yield a stack that runs on a folder, with these workers besides those of every stack."""
    stack = start_stack(folder, environ, tick_seconds=_TICK_SECONDS, also=also)
    watcher = threading.Thread(target=stack.supervisor.watch, name="watch")
    watcher.start()
    try:
        yield stack
    finally:
        stack.supervisor.ask_to_stop()
        watcher.join()
        stack.stop()
