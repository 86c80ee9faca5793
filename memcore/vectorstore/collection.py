"""One collection: an engine shard, the request that made it, its writers' turn and its upkeep."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import orjson
import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.errors import MemoryConfigError
from memcore.vectorstore.durable import sync_tree, write_file
from memcore.vectorstore.refusal import NotFoundError, RefusedError, engine_errors
from memcore.vectorstore.shape import Shape
from memcore.vectorstore.sparse_removal import SparseRemoval
from memcore.vectorstore.wal import GroupCommit, sync_log
from memcore.vectorstore.writes import Operation

#: The file in a collection's folder that holds its name and the request that created it.
_RECORD = "collection.json"

#: The engine's own folder in a collection's folder, and its log's in that.
_SHARD, _LOG = "shard", "wal"

#: Passes of the event loop between two chunks of a big write: a waiting search is accepted, read, started and answered.
_PASSES = 4

#: Version of the layout of a collection's folder.
_FORMAT = 1


class Collection:
    """An open collection. All calls come from the event loop's thread; engine calls run inline and hold it.

    The engine keeps the interpreter's lock in every call, so threads would add switches and no parallel work.

    Args:
        folder: the collection's folder, made by ``Collection.build``.
        executor: where the log is synced.
        monotonic: seconds from any start, for the upkeep's sense of idleness.

    Raises:
        MemoryConfigError: the folder is not a collection that this version can open.
    """

    def __init__(self, *, folder: Path, executor: Executor, monotonic: Callable[[], float]) -> None:
        try:
            record = orjson.loads((folder / _RECORD).read_bytes())
            self.name: str = record["name"]
            self.created = rest.CreateCollection.model_validate(record["created"])
            _refuse_other_format(record["format"])
            self.shape = Shape.of(self.created)
            self.shard = edge.EdgeShard.load(str(folder / _SHARD), self.shape.engine_config())
        except Exception as error:
            raise MemoryConfigError(f"{folder} cannot be opened as a collection: {error}") from error
        self.folder = folder
        self.commit = GroupCommit(sync=lambda: sync_log(folder / _SHARD / _LOG), executor=executor)
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
        (folder / _SHARD).mkdir(parents=True)
        with engine_errors():
            shard = edge.EdgeShard.create(str(folder / _SHARD), config)
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
        """Apply operations in order, letting searches in between, and return one operation number a batch.

        With ``wait`` it returns when the writes survive a power cut. Without, they survive ``kill -9`` on return and a
        power cut when the upkeep has synced the log, about a second later.

        Raises:
            RefusedError: the engine refused one; those before it are written.
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
            except RefusedError:
                # what was applied before the refusal is as durable as an answered write
                if wait and self._is_open:
                    await self.commit.settle()
                raise
        if wait:
            await self.commit.settle()
        return numbers

    def _apply(self, operation: Operation) -> None:
        shard = self.reading()
        self.commit.wrote()
        self.needs_checkpoint = self.needs_vacuum = True
        with engine_errors():
            for step in operation.operations(shard) if isinstance(operation, SparseRemoval) else (operation,):
                shard.update(step)

    def reading(self) -> edge.EdgeShard:
        """Return the shard for a read, and note that the collection is in use.

        Raises:
            NotFoundError: the collection was deleted while the request waited for its turn.
        """
        if not self._is_open:
            raise NotFoundError.collection(self.name)
        self.used_at = self._monotonic()
        return self.shard

    def vector_of(self, point: int | str, using: str) -> Any:
        """Return a stored point's vector, for queries by id."""
        with engine_errors():
            found = self.reading().retrieve([point], False, [using])  # noqa: FBT003  # the engine takes it by position
        vectors = found[0].vector if found else None
        vector = vectors.get(using) if isinstance(vectors, dict) else vectors
        if vector is None:
            raise NotFoundError(f"Not found: No point with id {point} found")
        return vector

    async def create_index(self, field: str, params: Any, *, wait: bool) -> int:
        """Index a payload field."""
        with engine_errors():
            operation = edge.UpdateOperation.create_field_index(field, params)
        return (await self.write([[operation]], wait=wait))[0]

    async def delete_index(self, field: str, *, wait: bool) -> int:
        """Drop the index of a payload field; a field without one is no error."""
        with engine_errors():
            operation = edge.UpdateOperation.delete_field_index(field)
        return (await self.write([[operation]], wait=wait))[0]

    def checkpoint(self) -> None:
        """Let the engine write its segments to disk, so that its log can be cut; it blocks for about 10 ms."""
        with engine_errors():
            self.shard.flush()
        self.needs_checkpoint = False
        self.checkpoint_at = self._monotonic()

    def vacuum(self) -> bool:
        """Let the engine rewrite segments with many deleted points; it blocks, 1.2 s for 40% of 50,000 points."""
        self.needs_vacuum = False
        with engine_errors():
            changed = self.shard.optimize()
        if changed:
            self.checkpoint()
        return changed

    async def close(self) -> None:
        """Wait for the writer whose turn it is, write everything to disk and let go of the files."""
        async with self._turn:
            if not self._is_open:
                return
            self._is_open = False
            await self.commit.settle()
            self.checkpoint()
            self.shard.close()


def _refuse_other_format(found: object) -> None:
    if found != _FORMAT:
        raise MemoryConfigError(f"its format is {found}, this version knows {_FORMAT}")


def _write_record(folder: Path, name: str, created: rest.CreateCollection) -> None:
    record = {"format": _FORMAT, "name": name, "created": created.model_dump(mode="json", exclude_none=True)}
    write_file(folder / _RECORD, orjson.dumps(record))
