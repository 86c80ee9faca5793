"""One collection: an engine shard, the request that created it, its serialised writes and its upkeep."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.vectorstore.durability import (
    LOG,
    SHARD,
    DamagedError,
    GroupCommit,
    PointCount,
    forget_sizes,
    refuse_cut_files,
    sync_log,
    sync_tree,
    write_checkpoint,
    write_file,
)
from memcore.vectorstore.errors import ApiError, NotFoundError
from memcore.vectorstore.translation import Shape, engine_errors
from memcore.vectorstore.writes import Operation, PointRemoval

#: The file in a collection's folder that holds its name and the request that created it.
_RECORD = "collection.json"

#: Passes of the event loop between two chunks of a big write: a waiting search is accepted, read, started and answered.
_PASSES = 4

#: Version of the layout of a collection's folder.
_FORMAT = 1

_log = logging.getLogger(__name__)


class Collection:
    """An open collection, in a folder made by :meth:`build`; DamagedError says that it is not whole.

    All calls come from the event loop's thread, and engine calls run inline and hold it: the engine keeps the
    interpreter's lock in every call, so threads would add switches and no parallel work. The log is synced in the
    executor; ``monotonic`` is for the upkeep's sense of idleness.
    """

    def __init__(self, *, folder: Path, executor: Executor, monotonic: Callable[[], float]) -> None:
        self.name, self.created = created_as(folder)
        self.shape = Shape.of(self.created)
        refuse_cut_files(folder)
        self.shard = load_shard(folder / SHARD, self.shape)
        self._count = PointCount(folder)
        points = self._count_exactly()
        if self._count.least is not None and points < self._count.least:
            self.shard.close()
            self._count.close()
            raise DamagedError(f"{SHARD} holds {points} of at least {self._count.least} points")
        self._count.keep(points)
        self.folder = folder
        self.commit = GroupCommit(sync=self._sync, executor=executor)
        self._monotonic = monotonic
        self._turn = asyncio.Lock()
        self._is_open = True
        self._operations = 0
        self.used_at = self.checkpoint_at = monotonic()
        self.needs_checkpoint = True
        self.needs_vacuum = True

    @staticmethod
    def build(folder: Path, name: str, created: rest.CreateCollection) -> None:
        """Write a new, empty collection to a folder and sync it; the caller moves it into place."""
        config = Shape.of(created).engine_config()
        (folder / SHARD).mkdir(parents=True)
        with engine_errors():
            shard = edge.EdgeShard.create(str(folder / SHARD), config)
            shard.flush()
            shard.close()
        _write_record(folder, name, created)
        sync_tree(folder)

    def annotate(self, metadata: dict[str, Any]) -> None:
        """Merge into the collection's metadata, as Qdrant does, and return when that survives a power cut."""
        created = self.created.model_copy(update={"metadata": {**(self.created.metadata or {}), **metadata}})
        _write_record(self.folder, self.name, created)
        self.created = created

    async def write(self, batches: Sequence[Sequence[Operation]], *, wait: bool) -> list[int]:
        """Apply operations in order, with searches in between, and return one operation number per batch.

        With ``wait`` it returns when the writes survive a power cut. Without, they survive ``kill -9`` on return and a
        power cut when the upkeep has synced the log, about a second later. What precedes a refused one is written.
        """
        numbers = []
        async with self._turn:
            try:
                for operations in batches:
                    for operation in operations:
                        self._apply(operation)
                        for _ in range(_PASSES if len(operations) > 1 else 0):
                            await asyncio.sleep(0)
                    self._operations += 1
                    numbers.append(self._operations)
            except ApiError:
                # what was applied before the refusal is as durable as an answered write
                if wait and self._is_open:
                    await self.settle()
                raise
        if wait:
            await self.settle()
        return numbers

    async def settle(self) -> None:
        """Return when every write so far survives a power cut, and note how many points that leaves."""
        await self.commit.settle()
        # What others wrote meanwhile is not on disk yet: the last of them will note it.
        if self._is_open and not self.commit.pending:
            # A count that cannot be raised is too low, which is no fault of the write.
            with suppress(OSError):
                self._count.keep(self._points())

    def _apply(self, operation: Operation) -> None:
        shard = self.reading()
        self.commit.refuse_if_failed()
        if isinstance(operation, PointRemoval):
            with engine_errors():
                self._count.lower(self._points() - operation.most(shard))
            operation = operation.operation
        self.commit.wrote()
        self.needs_checkpoint = self.needs_vacuum = True
        with engine_errors():
            shard.update(operation)

    def _points(self) -> int:
        # Microseconds, where an exact count takes a millisecond for 15,000 points. After a crash in a vacuum it counts
        # points twice that two segments hold; the difference was measured at the last exact count.
        return self.shard.info().points_count - self._twice

    def _count_exactly(self) -> int:
        points = self.shard.count(edge.CountRequest(exact=True))
        self._twice = self.shard.info().points_count - points
        return points

    def _sync(self) -> None:
        # The lowered count first: on a disk that has the removal and not the count, points would seem to be missing.
        self._count.sync()
        sync_log(self.folder / SHARD / LOG)

    def reading(self) -> edge.EdgeShard:
        """Return the shard for a read, and note that the collection is in use."""
        if not self._is_open:  # it was deleted while the request waited for its turn
            raise NotFoundError.collection(self.name)
        self.used_at = self._monotonic()
        return self.shard

    def checkpoint(self) -> None:
        """Let the engine write its segments to disk, so that its log can be cut; it blocks for about 10 ms."""
        with engine_errors():
            self.shard.flush()
            points = self._count_exactly()
            if not self.commit.pending:
                self._count.keep(points)
            write_checkpoint(self.folder)
        self.needs_checkpoint = False
        self.checkpoint_at = self._monotonic()

    def vacuum(self) -> bool:
        """Let the engine rewrite segments with many deleted points; it blocks, 1.2 s for 40% of 50,000 points."""
        self.needs_vacuum = False
        with engine_errors():
            changed = self.shard.optimize()
            if changed:
                forget_sizes(self.folder)
        if changed:
            self.checkpoint()
        return changed

    async def close(self) -> None:
        """Wait for the current writer, write everything to disk and close the files."""
        async with self._turn:
            if not self._is_open:
                return
            try:
                await self.settle()
                self.checkpoint()
            except ApiError as error:
                # The log has what was answered: the next start replays it.
                _log.error("store.close.unwritten collection=%s error=%s", self.name, error)
            self._is_open = False
            self.shard.close()
            self._count.close()


def created_as(folder: Path) -> tuple[str, rest.CreateCollection]:
    """Read a collection's name and the request that created it; raises DamagedError."""
    try:
        record = orjson.loads((folder / _RECORD).read_bytes())
        if record["format"] != _FORMAT:
            raise DamagedError(f"its format is {record['format']}, this version knows {_FORMAT}")
        return record["name"], rest.CreateCollection.model_validate(record["created"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{_RECORD} cannot be read ({type(error).__name__})") from error


def load_shard(path: Path, shape: Shape) -> edge.EdgeShard:
    """Open a shard; raises DamagedError where the engine cannot, or panics."""
    if not path.is_dir():
        raise DamagedError(f"{path.name} is missing")
    try:
        with engine_errors():
            return edge.EdgeShard.load(str(path), shape.engine_config())
    except ApiError as error:
        raise DamagedError(f"{path.name} cannot be opened: {error}") from error


def _write_record(folder: Path, name: str, created: rest.CreateCollection) -> None:
    record = {"format": _FORMAT, "name": name, "created": created.model_dump(mode="json", exclude_none=True)}
    write_file(folder / _RECORD, orjson.dumps(record))
