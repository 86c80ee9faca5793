"""One collection: an engine shard, its serialised writes and its upkeep, and what keeps its folder whole.

The engine writes its log through a memory map and never syncs it: a write survives ``kill -9`` at once, a power cut
only after the log's pages were synced. Syncing the log costs one fsync a file, outside of the interpreter's lock, while
the engine's own ``flush()`` syncs about thirty files with everything else standing still.

The engine opens a shard with cut files without an error, and serves what is left of it. So the store keeps two files
of its own in the collection's folder, and compares at every start:

- ``points.count``: the least number of points. It is raised after the log is synced, and lowered before points are
  removed, so that whatever ends the process, a whole shard holds at least as many.
- ``checkpoint.json``: the sizes of the shard's files at the last checkpoint. Between two checkpoints they only grow.
"""

import asyncio
import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.errors import MemoryConfigError
from memcore.telemetry.events import Event
from memcore.vectorstore.errors import ApiError, EngineFailedError, NotFoundError
from memcore.vectorstore.translation import Shape, engine_errors
from memcore.vectorstore.writes import Operation, PointRemoval

#: Name of the lock file; the kernel drops the lock with the process, however that ends: a left-over file is harmless.
_LOCK_FILE = "store.lock"

#: The engine's own folder in a collection's folder, its log's in that, and the folder of its segments.
SHARD, LOG, SEGMENTS = "shard", "wal", "segments"

_COUNT, _CHECKPOINT = "points.count", "checkpoint.json"

#: Digits of a count: always as many, so that a write never changes the file's size and stays in one sector.
_DIGITS = 20

#: Files of a segment that the engine makes anew, shrinks or removes between two checkpoints (seen in 0.9.0). Without
#: one of them it refuses to load, or builds it again; the indexes of payloads are among them.
_CHANGING = frozenset({"segment.json", "tracker_journal.dat"})
_INDEXES = "payload_index"

#: A shard that is being written anew, without what was deleted, and the old one once the new one has its place.
_REWRITING, _REPLACED = "rewriting", "replaced"

#: What the name of a damaged shard that was set aside begins with.
ASIDE = "damaged-"

#: The file in a collection's folder that holds its name and the request that created it.
_RECORD = "collection.json"

#: Passes of the event loop between two chunks of a big write: a waiting search is accepted, read, started and answered.
_PASSES = 4

#: Points that a rewrite copies in one engine call, which holds everything else up for some milliseconds.
_COPIED = 256

#: Version of the layout of a collection's folder.
_FORMAT = 1

_log = logging.getLogger(__name__)


@contextmanager
def owned(folder: Path) -> Generator[None]:
    """Own a data folder, made when missing, while the context is open; MemoryConfigError names another owner."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(handle, 20, 0).decode(errors="replace").strip() or "unknown"
            message = f"{folder} is owned by another store server (pid {owner}): use that one, or stop it first."
            raise MemoryConfigError(message) from None
        # For people alone: on a full disk there may be no room for it.
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


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


def copy_tree(source: Path, target: Path, *, without: Iterable[str] = ()) -> None:
    """Copy a folder without what has one of these names; holes stay holes, and the engine's files are mostly holes."""
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
    """Makes writes survive a power cut: several writers share one sync, which blocks a thread of the executor."""

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
        """Return when every write noted before this call is on disk; raises EngineFailedError when the disk fails."""
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


class DamagedError(Exception):
    """A collection's folder does not hold what it should; the message says which file, or how many points."""


class PointCount:
    """The least number of points that the shard in a collection's folder must hold, on disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _COUNT
        self.least = least_points(folder)
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._is_lowered = False

    def keep(self, points: int) -> None:
        """Note how many points are on disk; raises OSError."""
        if points != self.least:
            os.pwrite(self._handle, b"%0*d\n" % (_DIGITS, points), 0)
            self.least = points

    def lower(self, points: int) -> None:
        """Note before a removal how few points may be left after it; raises OSError."""
        if self.least is None or points < self.least:
            self.keep(max(0, points))
            self._is_lowered = True

    def sync(self) -> None:
        """Make a lowered count survive a power cut, as the removal will that follows it; called in a thread."""
        if self._is_lowered:
            self._is_lowered = False
            sync_file(self._path)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def least_points(folder: Path) -> int | None:
    """Return the least number of points that a collection's shard must hold, None where it is not recorded."""
    try:
        content = (folder / _COUNT).read_bytes()
    except FileNotFoundError:
        return None
    if len(content) != _DIGITS + 1 or not content.strip().isdigit():
        _log.warning("%s path=%s", Event.STORE_COUNT_UNREADABLE, folder / _COUNT)
        return None
    return int(content)


def write_checkpoint(folder: Path) -> None:
    """Note the sizes of the shard's files and its last operation, right after a checkpoint; raises OSError."""
    shard = folder / SHARD
    sizes = {
        str(path.relative_to(shard)): path.stat().st_size
        for path in (shard / SEGMENTS).rglob("*")
        if path.name not in _CHANGING and _INDEXES not in path.parts and path.is_file()
    }
    _note(folder, {"files": sizes, "operation": last_operation(shard)})


def forget_sizes(folder: Path) -> None:
    """Note that the next checkpoint removes files, so that a crash in it is not taken for damage; raises OSError."""
    _note(folder, {"files": {}, "operation": noted_operation(folder)})


def _note(folder: Path, noted: dict[str, Any]) -> None:
    if noted != _noted(folder):
        write_file(folder / _CHECKPOINT, orjson.dumps(noted))


def noted_operation(folder: Path) -> int | None:
    """Return the number of the last operation before the last checkpoint, None where it is not known."""
    found: int | None = _noted(folder).get("operation")
    return found


def last_operation(shard: Path) -> int | None:
    """Return the number of the last operation that the segments of a flushed shard hold."""
    states = [orjson.loads(path.read_bytes()) for path in (shard / SEGMENTS).glob("*/segment.json")]
    return max((state["version"] for state in states if state.get("version") is not None), default=None)


def refuse_cut_files(folder: Path) -> None:
    """Raise DamagedError where a file is missing or shorter than noted; asked before the engine touches them."""
    for name, size in sorted(_noted(folder).get("files", {}).items()):
        try:
            found = (folder / SHARD / name).stat().st_size
        except FileNotFoundError:
            raise DamagedError(f"{SHARD}/{name} is missing") from None
        if found < size:
            raise DamagedError(f"{SHARD}/{name} is cut: it has {found} of {size} bytes")


def _noted(folder: Path) -> dict[str, Any]:
    try:
        noted: dict[str, Any] = orjson.loads((folder / _CHECKPOINT).read_bytes())
    except FileNotFoundError:
        return {}
    except orjson.JSONDecodeError:
        _log.warning("%s path=%s", Event.STORE_CHECKPOINT_UNREADABLE, folder / _CHECKPOINT)
        return {}
    return noted


class Collection:
    """An open collection, in a folder made by :meth:`build`; DamagedError says that it is not whole.

    All calls come from the event loop's thread, and engine calls run inline and hold it: the engine keeps the
    interpreter's lock in every call, so threads would add switches and no parallel work. The log is synced in the
    executor; ``monotonic`` is for the upkeep's sense of idleness.
    """

    def __init__(self, *, folder: Path, executor: Executor, monotonic: Callable[[], float]) -> None:
        self.name, self.created = created_as(folder)
        self.shape = Shape.of(self.created)
        _end_rewrite(folder)
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

    async def rewrite(self) -> int:
        """Write every point to a new shard, which takes the place of the old one, and return how many there are.

        Nothing of what was deleted is left in any file then, nor in shards that were set aside as damaged. Writers
        wait meanwhile; searches go on, until the shards change places. A crash leaves the old shard or the new one.
        """
        async with self._turn:
            self.reading()
            await self.settle()
            aside, old = self.folder / _REWRITING, self.folder / _REPLACED
            # What an earlier one left: its moves were made, and what it replaced could not be removed.
            for left_over in (aside, old) if (self.folder / SHARD).exists() else (aside,):
                shutil.rmtree(left_over, ignore_errors=True)
            aside.mkdir()
            points = await self._copy_to(aside)
            await asyncio.to_thread(sync_tree, aside)
            # Sizes and numbers of operations are the old shard's.
            _note(self.folder, {"files": {}, "operation": None})
            self.shard.close()
            (self.folder / SHARD).replace(old)
            _end_rewrite(self.folder)
            self.shard = load_shard(self.folder / SHARD, self.shape)
            self._count_exactly()
            self.checkpoint()
            for damaged in self.folder.glob(f"{ASIDE}*"):
                shutil.rmtree(damaged, ignore_errors=True)
            self.needs_vacuum = False
            return points

    async def _copy_to(self, folder: Path) -> int:
        points, offset = 0, None
        with engine_errors():
            copy = edge.EdgeShard.create(str(folder), self.shape.engine_config())
            try:
                for field, index in self.shard.info().payload_schema.items():
                    copy.update(edge.UpdateOperation.create_field_index(field, index.data_type))
                while True:
                    page = edge.ScrollRequest(offset=offset, limit=_COPIED, with_payload=True, with_vector=True)
                    found, offset = self.shard.scroll(page)
                    if found:
                        rows = [edge.Point(each.id, each.vector or {}, each.payload) for each in found]
                        copy.update(edge.UpdateOperation.upsert_points(rows, None, edge.UpdateMode.Upsert))
                    points += len(found)
                    if offset is None:
                        break
                    for _ in range(_PASSES):
                        await asyncio.sleep(0)
                copy.flush()
            finally:
                copy.close()
        return points

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
                _log.error("%s collection=%s error=%s", Event.STORE_CLOSE_UNWRITTEN, self.name, error)
            self._is_open = False
            self.shard.close()
            self._count.close()


def _end_rewrite(folder: Path) -> None:
    """Finish a rewrite that a crash ended behind its first move, and remove what another one left."""
    aside, replaced = folder / _REWRITING, folder / _REPLACED
    if replaced.exists() and not (folder / SHARD).exists():
        # The old shard leaves its place only once the new one is whole, and on disk.
        aside.replace(folder / SHARD)
        sync_folder(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    shutil.rmtree(aside, ignore_errors=True)


def created_as(folder: Path) -> tuple[str, rest.CreateCollection]:
    """Read a collection's name and the request that created it; raises DamagedError."""
    try:
        record = orjson.loads((folder / _RECORD).read_bytes())
        if record["format"] != _FORMAT:
            raise DamagedError(f"its format is {record['format']}, this version knows {_FORMAT}")
        return record["name"], rest.CreateCollection.model_validate(record["created"], extra="ignore")
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
