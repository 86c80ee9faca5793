"""Skills on the disk: a folder for each, which appears whole, inside of one directory and never outside of it."""

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from memcore.procedural.lesson_text import LessonText
from memcore.procedural.skill_file import skill_file
from memcore.procedural.skill_name import skill_name

#: The file's name (Agent Skills).
SKILL_FILE = "SKILL.md"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SkillFolders:
    """Write lessons as skills that agents and people find without memtend.

    Args:
        root: the directory of all skills; made when it is not there. It may be a link, nothing in it is followed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, lesson: LessonText, *, memory_id: str, source: str) -> str:
        """Write the skill, or write it anew, and return its name; readers see the old file, the new one, or none.

        Args:
            lesson: what it says.
            memory_id: its memory; the same memory is the same folder.
            source: where it comes from.

        Raises:
            OSError: it could not be written, or something else stands where its folder belongs.
        """
        name = skill_name(lesson.discovery, memory_id=memory_id)
        content = skill_file(lesson, name=name, source=source)
        self._root.mkdir(parents=True, exist_ok=True)
        # From here on every name is relative to an open folder, which no link can move.
        root = os.open(self._root, _FOLDER & ~os.O_NOFOLLOW)
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=root)
            folder = os.open(name, _FOLDER, dir_fd=root)
            try:
                _replace(folder, content)
            finally:
                os.close(folder)
            os.fsync(root)
        finally:
            os.close(root)
        return name

    def remove(self, lesson: LessonText, *, memory_id: str) -> bool:
        """Take a skill's file away, and its folder once nothing else is in it; return whether the file was there.

        Args:
            lesson: what was written.
            memory_id: under which.

        Raises:
            OSError: it could not be removed, or something else stands where its folder belongs.
        """
        name = skill_name(lesson.discovery, memory_id=memory_id)
        try:
            root = os.open(self._root, _FOLDER & ~os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            return _remove(root, name)
        finally:
            os.close(root)


def _remove(root: int, name: str) -> bool:
    try:
        folder = os.open(name, _FOLDER, dir_fd=root)
    except FileNotFoundError:
        return False
    try:
        os.unlink(SKILL_FILE, dir_fd=folder)
        was_there = True
    except FileNotFoundError:
        was_there = False
    finally:
        os.close(folder)
    try:
        os.rmdir(name, dir_fd=root)
    except OSError as error:
        # What somebody else put there stays, and so does its folder.
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}:
            raise
    os.fsync(root)
    return was_there


def _replace(folder: int, content: bytes) -> None:
    beside = f".{SKILL_FILE}.{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(beside, _NEW, 0o666, dir_fd=folder), "wb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        os.replace(beside, SKILL_FILE, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
    os.fsync(folder)
