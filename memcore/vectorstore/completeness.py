"""Completeness of a shard: the least number of points and the file sizes, written beside it.

The engine opens a shard with cut files without an error, and serves what is left of it. So the store keeps two files
of its own in the collection's folder, and compares at every start:

- ``points.count``: the least number of points. It is raised after the log is synced, and lowered before points are
  removed, so that whatever ends the process, a whole shard holds at least as many.
- ``checkpoint.json``: the sizes of the shard's files at the last checkpoint. Between two checkpoints they only grow.
"""

import logging
import os
from pathlib import Path
from typing import Any

import orjson

from memcore.vectorstore.wal import sync_file, write_file

#: The engine's own folder in a collection's folder, its log's in that, and the folder of its segments.
SHARD, LOG, SEGMENTS = "shard", "wal", "segments"

_COUNT, _CHECKPOINT = "points.count", "checkpoint.json"

#: Digits of a count: always as many, so that a write never changes the file's size and stays in one sector.
_DIGITS = 20

#: Files of a segment that the engine makes anew, shrinks or removes between two checkpoints (seen in 0.9.0). Without
#: one of them it refuses to load, or builds it again; the indexes of payloads are among them.
_CHANGING = frozenset({"segment.json", "tracker_journal.dat"})
_INDEXES = "payload_index"

_log = logging.getLogger(__name__)


class DamagedError(Exception):
    """A collection's folder does not hold what it should; the message says which file, or how many points."""


class PointCount:
    """The least number of points that a shard must hold, on disk.

    Args:
        folder: the collection's folder.
    """

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
        _log.warning("store.count.unreadable path=%s", folder / _COUNT)
        return None
    return int(content)


def write_checkpoint(folder: Path) -> None:
    """Note the sizes of the shard's files and its last operation, right after a checkpoint; raises OSError."""
    shard = folder / SHARD
    _write(folder, {"files": _sizes(shard), "operation": last_operation(shard)})


def forget_sizes(folder: Path) -> None:
    """Note that the next checkpoint removes files, so that a crash in it is not taken for damage; raises OSError."""
    _write(folder, {"files": {}, "operation": noted_operation(folder)})


def _write(folder: Path, noted: dict[str, Any]) -> None:
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
    """Compare the shard's files with what the last checkpoint noted, before the engine touches them.

    Raises:
        DamagedError: one is missing or too short.
    """
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
        _log.warning("store.checkpoint.unreadable path=%s", folder / _CHECKPOINT)
        return {}
    return noted


def _sizes(shard: Path) -> dict[str, int]:
    return {
        str(path.relative_to(shard)): path.stat().st_size
        for path in (shard / SEGMENTS).rglob("*")
        if path.name not in _CHANGING and _INDEXES not in path.parts and path.is_file()
    }
