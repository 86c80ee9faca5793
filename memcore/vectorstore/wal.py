"""Group commit of a collection's write-ahead log: several writers share one sync to disk.

The engine writes its log through a memory map and never syncs it: a write survives ``kill -9`` at once, a power cut
only after the log's pages were synced. Syncing the log costs one fsync a file, outside of the interpreter's lock, while
the engine's own ``flush()`` syncs about thirty files with everything else standing still.
"""

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from pathlib import Path

from memcore.vectorstore.rest import EngineFailedError


def sync_folder(folder: Path) -> None:
    """Make the names in a folder (creations, renames, removals) survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Make every file and name below a folder survive a power cut."""
    for path, _, files in os.walk(folder):
        for name in files:
            sync_file(Path(path) / name)
        sync_folder(Path(path))


def sync_file(path: Path) -> None:
    """Write a file's dirty pages to disk, those written through a memory map included."""
    handle = os.open(path, os.O_RDONLY)
    try:
        # fdatasync leaves the time stamps out, which saves a journal commit; macOS has only fsync.
        getattr(os, "fdatasync", os.fsync)(handle)
    finally:
        os.close(handle)


def write_file(path: Path, content: bytes) -> None:
    """Replace a file in one step: after a crash it holds either the old content or the new, never a part."""
    aside = path.with_name(path.name + ".new")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def copy_tree(source: Path, target: Path, *, without: Collection[str] = ()) -> None:
    """Copy a folder without what has one of these names; holes stay holes, and the engine's files are mostly holes.

    Raises OSError.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*without), copy_function=_copy_sparse)


def _copy_sparse(source: str, target: str) -> str:
    with Path(source).open("rb") as read, Path(target).open("wb") as write:
        size, at = os.fstat(read.fileno()).st_size, 0
        write.truncate(size)
        while at < size:
            try:
                start = os.lseek(read.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole to the end
                    break
                raise
            at = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            read.seek(start)
            write.seek(start)
            write.write(read.read(at - start))
    return target


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
