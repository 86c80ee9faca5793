"""The store: a data folder with collections, crash-safe at every step, and its upkeep.

::

    data folder/
    ├── store.lock         who owns the folder
    ├── collections/       one folder each, named after the collection (see ``recovery``)
    ├── building/          collections on their way in: emptied at every start
    └── trash/             collections on their way out: emptied at every start
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, unquote
from uuid import uuid4

from qdrant_client.http import models as rest

from memcore.errors import MemoryDiskFullError
from memcore.free_space import FOR_WRITES, refuse_when_low
from memcore.telemetry.events import Event
from memcore.vectorstore.collection import Collection, DamagedError, sync_folder
from memcore.vectorstore.errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    DiskFullError,
    NotFoundError,
    UnavailableError,
)
from memcore.vectorstore.page_cache import release_pages
from memcore.vectorstore.recovery import open_collection

# The durability policy, whole:
#
# - The write-ahead log is always on: a write that was answered survives ``kill -9``.
# - ``wait=true``: the log is synced before the answer; writers that arrive meanwhile share the next sync.
# - ``wait=false``: the log is synced by the timer here, within ``TICK`` of the answer.
# - A checkpoint writes the segments, so that the log stays short: in an idle moment, or when the last one is old.
# - A vacuum follows when the collection was idle for a while; the engine skips segments with less than 20% deleted
#   points.

#: Time between two rounds, and so how long a write with wait=false may be lost to a power cut.
TICK = timedelta(seconds=1)

#: A collection unused for this long is idle: a checkpoint (about 10 ms) will hardly meet a request.
IDLE = timedelta(seconds=1)

#: A busy collection is checkpointed at this age, so that reopening replays no more than half a minute of writes.
OLDEST_CHECKPOINT = timedelta(seconds=30)

#: A collection unused for this long is vacuumed if it needs it (up to a second or two with everything standing still).
QUIET = timedelta(seconds=10)

#: Characters that Qdrant refuses in a collection's name.
_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')

#: Bytes of a folder name that every file system takes.
_LONGEST_NAME = 255

_log = logging.getLogger(__name__)

#: Collections opened at the start before pages are given back: each holds 112 MiB until then, and finding them takes
#: some milliseconds for each collection that is open.
_OPENED_AT_ONCE = 16

#: Threads that sync logs: one collection never holds another one up, and a disk gains nothing from more.
_SYNC_THREADS = 4


class Store:
    """The open data folder, which this process owns (see ``collection.owned``).

    A collection that is damaged and cannot be rebuilt is refused; the others are served. Raises MemoryDiskFullError
    when the disk is too full to tell whether a collection is damaged.
    """

    def __init__(self, folder: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._data = folder
        self._executor = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="sync")
        self._home, self._building, self._trash = (folder / name for name in ("collections", "building", "trash"))
        for left_over in (self._building, self._trash):
            shutil.rmtree(left_over, ignore_errors=True)
        for part in (self._home, self._building, self._trash):
            part.mkdir(parents=True, exist_ok=True)
        sync_folder(folder)
        self.collections: dict[str, Collection] = {}
        #: Why each collection is refused that could not be opened whole, by its name.
        self.refused: dict[str, str] = {}
        for number, path in enumerate(sorted(self._home.iterdir()), 1):
            name = unquote(path.name)
            try:
                self.collections[name] = self._open(path)
            except DamagedError as damage:
                _log.error("%s reason=%s", Event.STORE_COLLECTION_REFUSED, damage)
                self.refused[name] = str(damage)
            if number % _OPENED_AT_ONCE == 0:
                release_pages(self._home)
        release_pages(self._home)
        self._active_collection = asyncio.Lock()

    def _open(self, path: Path) -> Collection:
        return open_collection(path, unquote(path.name), executor=self._executor, monotonic=self._monotonic)

    def collection(self, name: str) -> Collection:
        """Return a collection by its name; one that is damaged is refused."""
        if name in self.refused:
            raise UnavailableError(self.refused[name])
        found = self.collections.get(name)
        if found is None:
            raise NotFoundError.collection(name)
        return found

    def exists(self, name: str) -> bool:
        """Say whether a collection has that name; a refused one does."""
        return name in self.collections or name in self.refused

    def refuse_when_full(self, *, least: int = FOR_WRITES) -> None:
        """Raise DiskFullError when there is too little room for a write."""
        try:
            refuse_when_low(self._data, least=least)
        except MemoryDiskFullError as error:
            raise DiskFullError(str(error)) from None

    async def create(self, name: str, request: rest.CreateCollection) -> None:
        """Create an empty collection: built aside, synced, then moved into place."""
        folder = self._home / _folder_name(name)
        self.refuse_when_full()
        async with self._active_collection:
            if name in self.refused:
                raise UnavailableError(self.refused[name])
            if self.exists(name):
                raise ConflictError(f"Wrong input: Collection `{name}` already exists!")
            aside = self._building / uuid4().hex
            try:
                Collection.build(aside, name, request)
                aside.replace(folder)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
            sync_folder(self._home)
            self.collections[name] = self._open(folder)

    async def delete(self, name: str) -> bool:
        """Delete a collection; say whether there was one."""
        async with self._active_collection:
            if not self.exists(name):
                return False
            self.refused.pop(name, None)
            if collection := self.collections.pop(name, None):
                await collection.close()
            aside = self._trash / uuid4().hex
            (self._home / _folder_name(name)).replace(aside)
            sync_folder(self._home)
        await asyncio.to_thread(shutil.rmtree, aside, ignore_errors=True)
        return True

    async def keep_up(self) -> None:
        """Compact every TICK; cancel it to stop."""
        while True:
            await asyncio.sleep(TICK.total_seconds())
            await self.compact()

    async def compact(self) -> None:
        """Do the due upkeep once; a failure is logged, retried the next time, and stops no other collection."""
        for collection in list(self.collections.values()):
            try:
                await self._compact_due(collection)
            except ApiError:
                _log.exception("%s collection=%s", Event.STORE_UPKEEP_FAILED, collection.name)

    async def _compact_due(self, collection: Collection) -> None:
        if collection.commit.pending:
            await collection.settle()
        # the collection may have been deleted meanwhile
        if collection is not self.collections.get(collection.name):
            return
        try:
            self.refuse_when_full()
        except DiskFullError:
            return  # the log holds everything, and on a full disk a checkpoint would fail
        now = self._monotonic()
        idle = now - collection.used_at
        is_old = now - collection.checkpoint_at >= OLDEST_CHECKPOINT.total_seconds()
        if collection.needs_checkpoint and (idle >= IDLE.total_seconds() or is_old):
            collection.checkpoint()
        if collection.needs_vacuum and idle >= QUIET.total_seconds() and collection.vacuum():
            _log.info("%s collection=%s", Event.STORE_VACUUM_COMPLETE, collection.name)

    async def close(self) -> None:
        """Write everything to disk and close the files."""
        async with self._active_collection:
            for collection in self.collections.values():
                await collection.close()
            self.collections.clear()
        self._executor.shutdown()


def _folder_name(name: str) -> str:
    folder = quote(name, safe="")
    if not name or _FORBIDDEN & set(name) or name in {".", ".."} or len(folder) > _LONGEST_NAME:
        raise BadRequestError('Wrong input: collection name: 1 to 255 characters are expected, none of <>:"/\\|?*')
    return folder
