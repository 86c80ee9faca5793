"""Recovery of a damaged collection: from its own log, from a backup, or with the points that are left.

A damaged shard is moved aside within its collection's folder and never deleted::

    collections/NAME/
    ├── collection.json
    ├── points.count, checkpoint.json    what the shard must hold (see ``collection``)
    ├── shard/                           missing while the collection is refused
    ├── damaged-TIME/                    a shard that was set aside
    └── refused.json                     why the collection is refused; none while it is served

The log reaches back to the beginning of a collection until about 64 MiB were written to it, some ten thousand memories.
Until then everything can be replayed from it.
"""

import logging
import shutil
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import orjson
import qdrant_edge as edge

from memcore.errors import MemoryConfigError
from memcore.free_space import FOR_WRITES, refuse_when_low
from memcore.telemetry.events import Event
from memcore.vectorstore.collection import (
    ASIDE,
    LOG,
    SEGMENTS,
    SHARD,
    Collection,
    DamagedError,
    PointCount,
    copy_tree,
    created_as,
    last_operation,
    least_points,
    load_shard,
    noted_operation,
    owned,
    refuse_cut_files,
    sync_folder,
    sync_tree,
    write_checkpoint,
    write_file,
)
from memcore.vectorstore.errors import ApiError
from memcore.vectorstore.translation import Shape, engine_errors

#: Points read at a time where all of them are looked at.
_PAGE_POINTS = 1000

_REBUILDING, _REFUSED = "rebuilding", "refused.json"

#: The engine's note of how far the log is in the segments already; without it the whole log is replayed.
_FIRST_INDEX = "first-index"

_log = logging.getLogger(__name__)


def open_collection(folder: Path, name: str, *, executor: Executor, monotonic: Callable[[], float]) -> Collection:
    """Open a collection; one that is damaged is rebuilt from its log where that holds everything.

    Raises:
        DamagedError: it cannot be served whole. Its shard is set aside, and the message says which command restores it.
        MemoryDiskFullError: the disk is full, so that nobody can tell.
    """
    refused = _refused(folder)
    if refused is not None:
        raise DamagedError(refused)
    try:
        created_as(folder)
    except DamagedError as damage:
        # Nothing is moved: it may be whole, and a newer version's.
        raise DamagedError(_sentence(name, str(damage), can_accept=False)) from None
    try:
        return Collection(folder=folder, executor=executor, monotonic=monotonic)
    except DamagedError as damage:
        # On a full disk the engine fails too: that is no damage, and a repair needs space itself.
        refuse_when_low(folder, least=FOR_WRITES)
        _log.error("%s collection=%s reason=%s", Event.STORE_COLLECTION_DAMAGED, name, damage)
        try:
            points = _rebuild(folder)
        except DamagedError as reason:
            shutil.rmtree(folder / _REBUILDING, ignore_errors=True)
            raise DamagedError(_refuse(folder, name, f"{damage}, and {reason}")) from None
        _log.warning("%s collection=%s points=%s", Event.STORE_COLLECTION_REBUILT, name, points)
    return Collection(folder=folder, executor=executor, monotonic=monotonic)


def restore(data: Path, name: str, *, backup: Path) -> int:
    """Take a collection from the ``vectors`` folder of a backup, and return how many points it holds.

    Raises MemoryConfigError when a server owns the data folder, or the backup lacks the collection, or has it damaged.
    """
    with owned(data):
        folder, source = _folder(data, name), _folder(backup, name)
        if not (source / SHARD).is_dir():
            raise MemoryConfigError(f"{backup} holds no collection {name}")
        aside = folder / _REBUILDING
        shutil.rmtree(aside, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        # With what it noted about itself: a backup that is not whole must not pass.
        copy_tree(source, aside, without=(_REBUILDING, _REFUSED))
        try:
            points = _whole(aside)
        except DamagedError as damage:
            shutil.rmtree(aside)
            raise MemoryConfigError(f"{name} is damaged in {backup} too: {damage}") from None
        (aside / "collection.json").replace(folder / "collection.json")
        _put_in_place(folder, aside / SHARD, points)
        shutil.rmtree(aside)
        return points


def accept(data: Path, name: str) -> tuple[int, int | None]:
    """Serve what is left of a refused collection, and return how many points that are, of how many at least.

    What its log still holds is replayed over what its segments hold. Points that were removed last may come back with
    them, where what said so is lost. Raises MemoryConfigError when a server owns the folder, the collection is not
    refused, or nothing of it can be read.
    """
    with owned(data):
        folder = _folder(data, name)
        if _refused(folder) is None:
            raise MemoryConfigError(f"{name} is not refused: there is nothing to accept")
        source, aside, reason = _source(folder), folder / _REBUILDING, "nothing of it is left"
        for without in ((_FIRST_INDEX,), (_FIRST_INDEX, "payload_index"), (SEGMENTS, _FIRST_INDEX), (LOG,)):
            shutil.rmtree(aside, ignore_errors=True)
            if source is None:
                break
            copy_tree(source, aside, without=without)
            try:
                points = _finished(folder, aside)
            except DamagedError as damage:
                reason = str(damage)
                continue
            least = least_points(folder)
            _put_in_place(folder, aside, points)
            return points, least
        shutil.rmtree(aside, ignore_errors=True)
        raise MemoryConfigError(f"{name} cannot be read: {reason}")


def _rebuild(folder: Path) -> int:
    """Replay the whole log into a new shard, put it in place and return its points; DamagedError says why not."""
    source = _source(folder)
    if source is None or not _reaches_back(source / LOG):
        raise DamagedError("its write-ahead log does not reach back to the beginning")
    least = least_points(folder)
    if least is None:
        raise DamagedError("nobody wrote down how much it held")
    aside = folder / _REBUILDING
    shutil.rmtree(aside, ignore_errors=True)
    copy_tree(source / LOG, aside / LOG, without=(_FIRST_INDEX,))
    points = _finished(folder, aside)
    if points < least or (last_operation(aside) or 0) < (noted_operation(folder) or 0):
        raise DamagedError(f"its write-ahead log holds {points} of at least {least} points")
    _put_in_place(folder, aside, points)
    return points


def _reaches_back(log: Path) -> bool:
    # The engine names a segment of its log after its first operation once it is full, and drops the oldest of them.
    full = [int(path.name.removeprefix("closed-")) for path in log.glob("closed-*")]
    return min(full) == 0 if full else (log / "open-1").exists()


def _finished(folder: Path, shard: Path) -> int:
    """Open a shard of this collection, read every point whole, write it to disk and return how many there are."""
    opened = load_shard(shard, Shape.of(created_as(folder)[1]))
    points, offset = 0, None
    try:
        with engine_errors():
            while True:  # about 15 microseconds a point
                page = edge.ScrollRequest(offset=offset, limit=_PAGE_POINTS, with_payload=True, with_vector=True)
                found, offset = opened.scroll(page)
                points += len(found)
                if offset is None:
                    break
            opened.flush()
    except ApiError as error:
        raise DamagedError(f"it cannot be read: {error}") from None
    finally:
        opened.close()
    return points


def _whole(folder: Path) -> int:
    refuse_cut_files(folder)
    points, least = _finished(folder, folder / SHARD), least_points(folder)
    if least is not None and points < least:
        raise DamagedError(f"it holds {points} of at least {least} points")
    return points


def _put_in_place(folder: Path, shard: Path, points: int) -> None:
    sync_tree(shard)
    if (folder / SHARD).exists():
        (folder / SHARD).replace(_free_name(folder))
    shard.replace(folder / SHARD)
    count = PointCount(folder)
    count.lower(points)
    count.keep(points)
    count.sync()
    count.close()
    write_checkpoint(folder)
    (folder / _REFUSED).unlink(missing_ok=True)
    sync_folder(folder)


def _source(folder: Path) -> Path | None:
    """Return the shard in place, else the one that was set aside last."""
    if (folder / SHARD).is_dir():
        return folder / SHARD
    return max(folder.glob(ASIDE + "*"), default=None)


def _refuse(folder: Path, name: str, reason: str) -> str:
    """Set the shard aside, and write down why the collection is refused from now on; return the whole sentence."""
    aside = _free_name(folder)
    where = f"; what is left of it lies in {aside}" if (folder / SHARD).exists() else ""
    sentence = _sentence(name, reason + where)
    # Before the shard moves: a crash in between must not leave a collection that only seems to be missing.
    write_file(folder / _REFUSED, orjson.dumps({"reason": sentence}))
    if (folder / SHARD).exists():
        (folder / SHARD).replace(aside)
        sync_folder(folder)
    return sentence


def _sentence(name: str, reason: str, *, can_accept: bool = True) -> str:
    restore = f"stop the stack, then `memtend vectors restore {name} --from BACKUP`"
    accept = f", or `memtend vectors accept {name}` for what is left" if can_accept else ""
    return f"collection {name} is refused: {reason}; {restore}{accept}"


def _refused(folder: Path) -> str | None:
    try:
        return str(orjson.loads((folder / _REFUSED).read_bytes())["reason"])
    except FileNotFoundError:
        return None


def _free_name(folder: Path) -> Path:
    return folder / f"{ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"


def _folder(data: Path, name: str) -> Path:
    return data / "collections" / quote(name, safe="")
