"""Skill folders: a lesson as a SKILL.md (agentskills.io, Specification), its name, and the writer of its folder."""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from memcore.errors import MemoryConfigError
from memcore.procedural.records import LessonText, numbered

#: Longest description, in characters (Agent Skills).
MAX_DESCRIPTION_CHARS = 1_024

#: What gives the beginning of a line a meaning in Markdown: headings, quotes, lists, rules, fences.
_BEGINNING = re.compile(r"^(?:(\d{1,9})(?=[.)])|(?=[#>+*-]|```|~~~))")

#: Where links and images get their address, and where HTML begins: what a viewer of Markdown loads or hides.
_ADDRESS = re.compile(r"\](?=[(:])")
_HTML = re.compile(r"<(?=[A-Za-z/!?])")

#: Characters that YAML and Markdown readers stumble over.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

#: Readers put the description into a prompt, where it may look like no tag.
_ANGLES = str.maketrans("<>", "\u2039\u203a")


def skill_file(lesson: LessonText, *, name: str, source: str) -> bytes:
    """Return the file: front matter that any YAML reader reads as text, then the lesson in four sections."""
    head = [
        f"name: {name}",
        f"description: {_quoted(_description(lesson))}",
        # The format knows no other fields: what is memtend's own stands under metadata, as text.
        "metadata:",
        f"  trigger: {_quoted(_line(lesson.condition))}",
        f"  confidence: {_quoted(format(lesson.confidence, 'g'))}",
        f"  tags: {_quoted(', '.join(lesson.tags))}",
        f"  source: {_quoted(_line(source))}",
    ]
    body = [
        f"# {_plain(lesson.discovery)}",
        f"## Condition\n\n{_plain(lesson.condition)}",
        f"## Action\n\n{_plain(lesson.action)}",
        f"## Rationale\n\n{_plain(lesson.rationale)}",
        f"## Execution Steps\n\n{numbered(tuple(map(_plain, lesson.execution_steps))) or 'None.'}",
    ]
    return "\n".join(["---", *head, "---", "", "\n\n".join(body), ""]).encode("utf-8", "backslashreplace")


def _description(lesson: LessonText) -> str:
    """Return what the skill does and when to use it, by which agents choose."""
    text = f"{_line(lesson.discovery)} Use when: {_line(lesson.condition)}".translate(_ANGLES).strip()
    return text if len(text) <= MAX_DESCRIPTION_CHARS else f"{text[: MAX_DESCRIPTION_CHARS - 1]}…"


def _line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _plain(text: str) -> str:
    """Return one line that is no heading, list, link, image or HTML; commands in it stay as they are."""
    return _BEGINNING.sub(r"\1\\", _HTML.sub("&lt;", _ADDRESS.sub(r"]\\", _line(text))))


def _quoted(text: str) -> str:
    # Always quoted: no reader takes "no", "1e3" or "2026-03-01" for anything but text.
    return yaml.dump(text, default_style='"', allow_unicode=True, width=sys.maxsize).rstrip("\n")


#: Longest name, in characters (Agent Skills).
MAX_NAME_CHARS = 64

#: Characters of the hash that ends a name: two lessons of the same words are two skills.
_HASH_CHARS = 12

_OTHER = re.compile(r"[^a-z0-9]+")


def skill_name(discovery: str, *, memory_id: str) -> str:
    """Return the name: words of the discovery for people, then a hash of the memory's id, parted by single hyphens.

    It has lower-case letters a to z, digits and hyphens alone, so it is one folder and never leads elsewhere. A
    discovery without such letters gives ``lesson`` and the hash.
    """
    digest = hashlib.sha256(memory_id.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    plain = unicodedata.normalize("NFKD", discovery).encode("ascii", "ignore").decode("ascii").lower()
    words = _OTHER.sub("-", plain).strip("-")[: MAX_NAME_CHARS - _HASH_CHARS - 1].strip("-")
    return f"{words or 'lesson'}-{digest}"


#: The file's name (Agent Skills).
SKILL_FILE = "SKILL.md"

#: The file in the directory of all skills that names the company whose skills these are.
OWNER_FILE = ".memtend-company"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class SkillFolders:
    """Writes a company's lessons as skill folders that agents and people can read without memtend.

    The directory of all skills is made when it is not there. It may be a link; nothing in it is followed. It belongs to
    the company that writes there first: its agents must not be shown the skills of another one.
    """

    def __init__(self, root: Path, *, company: str) -> None:
        self._root = root
        self._company = company

    def write(self, lesson: LessonText, *, memory_id: str, source: str) -> str:
        """Write or rewrite the skill, and return its name; readers see the old file, the new one, or none.

        Raises OSError: it could not be written, or something else stands where its folder belongs; MemoryConfigError:
        the directory is another company's.
        """
        name = skill_name(lesson.discovery, memory_id=memory_id)
        content = skill_file(lesson, name=name, source=source)
        self._root.mkdir(parents=True, exist_ok=True)
        # From here on every name is relative to an open folder, which no link can move.
        with _opened(self._root, _FOLDER & ~os.O_NOFOLLOW) as root:
            self._require_own(root)
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=root)
            with _opened(name, _FOLDER, within=root) as folder:
                _replace(folder, content)
            os.fsync(root)
        return name

    def remove(self, lesson: LessonText, *, memory_id: str) -> bool:
        """Remove a skill's file, and its folder once that is empty; return whether the file was there.

        Raises OSError: it could not be removed, or something else stands where its folder belongs.
        """
        name = skill_name(lesson.discovery, memory_id=memory_id)
        try:
            with _opened(self._root, _FOLDER & ~os.O_NOFOLLOW) as root:
                return _remove(root, name)
        except FileNotFoundError:
            return False

    def _require_own(self, root: int) -> None:
        with _opened(OWNER_FILE, _OWNER, within=root) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            owner = os.read(file, 1_024).decode("utf-8", "replace")
            if not owner:
                os.write(file, self._company.encode())
                os.fsync(file)
            elif owner != self._company:
                raise MemoryConfigError(
                    f"memory.procedural.skill_md_directory: {self._root} has the skills of the company {owner!r}; "
                    "give each company a directory of its own"
                )


@contextmanager
def _opened(path: str | Path, flags: int, *, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o666, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _remove(root: int, name: str) -> bool:
    was_there = False
    with _opened(name, _FOLDER, within=root) as folder, suppress(FileNotFoundError):
        os.unlink(SKILL_FILE, dir_fd=folder)
        was_there = True
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
