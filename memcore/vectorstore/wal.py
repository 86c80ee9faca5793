"""Group commit of a collection's write-ahead log: several writers share one sync to disk.

The engine writes its log through a memory map and never syncs it: a write survives ``kill -9`` at once, a power cut
only after the log's pages were synced. Syncing the log costs one fsync a file, outside of the interpreter's lock, while
the engine's own ``flush()`` syncs about thirty files with everything else standing still.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from memcore.vectorstore.durable import sync_file, sync_folder
from memcore.vectorstore.refusal import EngineFailedError


def sync_log(folder: Path) -> None:
    """Sync every file of a log folder, and the folder's names. It blocks: call it in a thread."""
    for path in folder.iterdir():
        try:
            sync_file(path)
        except FileNotFoundError:
            # a checkpoint on the loop's thread has just dropped a segment that the shard no longer needs
            continue
    sync_folder(folder)


class GroupCommit:
    """Makes writes survive a power cut, many at a time.

    Args:
        sync: writes the log to disk and blocks while it does.
        executor: where sync runs.
    """

    def __init__(self, *, sync: Callable[[], None], executor: Executor) -> None:
        self._sync = sync
        self._executor = executor
        self._written = 0
        self._synced = 0
        self._running: asyncio.Task[None] | None = None
        self._failure: OSError | None = None

    @property
    def pending(self) -> int:
        """How many writes are not yet on disk."""
        return self._written - self._synced

    def wrote(self) -> None:
        """Note one write to the log."""
        self.refuse_if_failed()
        self._written += 1

    def refuse_if_failed(self) -> None:
        """Refuse when a sync has failed: the kernel drops the dirty pages then, and a second sync would lie."""
        if self._failure is not None:
            raise EngineFailedError(f"the disk failed to sync ({self._failure.strerror}): restart the store server")

    async def settle(self) -> None:
        """Return when every write noted before this call is on disk.

        Raises:
            EngineFailedError: the disk failed; the store takes no more writes.
        """
        mark = self._written
        while self._synced < mark:
            self.refuse_if_failed()
            if self._running is None:
                self._running = asyncio.create_task(self._commit())
            await asyncio.shield(self._running)

    async def _commit(self) -> None:
        mark = self._written
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._sync)
            self._synced = mark
        except OSError as error:
            self._failure = error
        finally:
            self._running = None
