"""Files that survive a power cut: written aside, synced, renamed, and their folder synced too."""

import errno
import os
import shutil
from collections.abc import Collection
from pathlib import Path


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
