"""The data folder: its collections and aliases, which a crash between any two steps leaves whole.

::

    data folder/
    ├── store.lock         who owns the folder
    ├── aliases.json
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
from pathlib import Path
from urllib.parse import quote, unquote
from uuid import uuid4

from qdrant_client.http import models as rest

from memcore.errors import MemoryDiskFullError
from memcore.free_space import FOR_WRITES, refuse_when_low
from memcore.vectorstore.aliases import Aliases
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.completeness import DamagedError
from memcore.vectorstore.durable import sync_folder
from memcore.vectorstore.recovery import open_collection
from memcore.vectorstore.refusal import (
    BadRequestError,
    ConflictError,
    DiskFullError,
    NotFoundError,
    UnavailableError,
)

#: Characters that Qdrant refuses in a collection's name.
_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')

#: Bytes of a folder name that every file system takes.
_LONGEST_NAME = 255

_log = logging.getLogger(__name__)

#: Threads that sync logs: one collection never holds another one up, and a disk gains nothing from more.
_SYNC_THREADS = 4


class Store:
    """The open data folder.

    Args:
        folder: a folder that this process owns (see ``Ownership``).
        monotonic: seconds from any start.

    A collection that is damaged and cannot be rebuilt is refused; the others are served.

    Raises:
        MemoryDiskFullError: the disk is too full to tell whether a collection is damaged.
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
        self.aliases = Aliases(folder / "aliases.json")
        self.collections: dict[str, Collection] = {}
        #: Why each collection is refused that could not be opened whole, by its name.
        self.refused: dict[str, str] = {}
        for path in sorted(self._home.iterdir()):
            name = unquote(path.name)
            try:
                self.collections[name] = self._open(path)
            except DamagedError as damage:
                _log.error("store.collection.refused %s", damage)
                self.refused[name] = str(damage)
        self._shelf = asyncio.Lock()

    def _open(self, path: Path) -> Collection:
        return open_collection(path, unquote(path.name), executor=self._executor, monotonic=self._monotonic)

    def collection(self, name: str) -> Collection:
        """Return a collection by its name or by an alias.

        Raises:
            NotFoundError: neither is known.
            UnavailableError: it is damaged and refused; the message says what restores it.
        """
        name = self.aliases.resolve(name)
        self._refuse_damaged(name)
        found = self.collections.get(name)
        if found is None:
            raise NotFoundError.collection(name)
        return found

    def _refuse_damaged(self, name: str) -> None:
        if name in self.refused:
            raise UnavailableError(self.refused[name])

    def exists(self, name: str) -> bool:
        """Say whether a collection (not an alias) has that name; a refused one does."""
        return name in self.collections or name in self.refused

    def refuse_when_full(self, *, least: int = FOR_WRITES) -> None:
        """Raise DiskFullError when there is too little room for a write."""
        try:
            refuse_when_low(self._data, least=least)
        except MemoryDiskFullError as error:
            raise DiskFullError(str(error)) from None

    async def create(self, name: str, request: rest.CreateCollection) -> None:
        """Create an empty collection: built aside, synced, then moved into place.

        Raises:
            BadRequestError: the name or the shape is wrong.
            ConflictError: a collection or an alias has the name.
            UnavailableError: a collection of that name is damaged.
            DiskFullError: there is no room.
        """
        folder = self._home / _folder_name(name)
        self.refuse_when_full()
        async with self._shelf:
            self._refuse_damaged(name)
            if self.exists(name):
                raise ConflictError(f"Wrong input: Collection `{name}` already exists!")
            if self.aliases.resolve(name) != name:
                raise ConflictError(f"Wrong input: Alias `{name}` already exists!")
            aside = self._building / uuid4().hex
            try:
                Collection.build(aside, name, request)
                aside.replace(folder)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
            sync_folder(self._home)
            self.collections[name] = self._open(folder)

    async def delete(self, name: str) -> bool:
        """Delete a collection and its aliases; say whether there was one."""
        async with self._shelf:
            if not self.exists(name):
                return False
            self.aliases.drop_target(name)
            self.refused.pop(name, None)
            if collection := self.collections.pop(name, None):
                await collection.close()
            aside = self._trash / uuid4().hex
            (self._home / _folder_name(name)).replace(aside)
            sync_folder(self._home)
        await asyncio.to_thread(shutil.rmtree, aside, ignore_errors=True)
        return True

    async def close(self) -> None:
        """Write everything to disk and let go of the files."""
        async with self._shelf:
            for collection in self.collections.values():
                await collection.close()
            self.collections.clear()
        self._executor.shutdown()


def _folder_name(name: str) -> str:
    folder = quote(name, safe="")
    if not name or _FORBIDDEN & set(name) or name in {".", ".."} or len(folder) > _LONGEST_NAME:
        raise BadRequestError('Wrong input: collection name: 1 to 255 characters are expected, none of <>:"/\\|?*')
    return folder
