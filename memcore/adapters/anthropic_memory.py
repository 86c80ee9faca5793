"""``MemtendMemoryTool``: Anthropic's memory tool (``memory_20250818``), whose files are memories."""

import asyncio
import random
import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec

from memcore.adapters.protocol import MemoryLike, forget, listed, requiring, write
from memcore.adapters.values import escaped_name, plain_name
from memcore.errors import MemoryConflictError, MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name
from memcore.models.base import UNSEEN
from memcore.models.memory import MAX_CONTENT_BYTES, MAX_KEY_CHARS, MemoryEntry

with requiring("anthropic"):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

if TYPE_CHECKING:
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

#: The source of the memories.
SOURCE = "anthropic-memory-tool"

#: The folder that every path begins with.
_ROOT = "/memories"

#: Characters of a line's number, and levels of folders that a view shows.
_NUMBER_CHARS, _LEVELS = 6, 2

#: Lines around a replaced text that the answer shows.
_CONTEXT = 2

#: The attributes of a file: its tool's namespace, the parts of its path by their place, and a text that says nothing.
_FILES, _PATH, _BLANK = "files", "path", "blank"

#: What stands in a memory for a file without a text.
_PLACEHOLDER = "(an empty file)"

#: Longest blank text, in characters.
_MAX_BLANK = 1_024


class MemoryFiles:
    """The six commands over the keyed memories of one namespace; each returns what the model reads, or a ToolError.

    A file is a memory with its path as the key; folders are what paths have in common, and go with their last file.
    Edits and deletions are journaled, and can be undone.
    """

    def __init__(self, memory: MemoryLike, *, agent_id: str, namespace: str, category: str) -> None:
        self._memory = memory
        self._agent_id = agent_id
        self._namespace = namespace
        self._category = category
        # A model may call the tool several times at once, and an edit reads before it writes.
        self._lock = threading.Lock()

    def view(self, path: str, view_range: list[int] | None) -> str:
        """Return a file's lines with their numbers, or what a folder holds."""
        parts = parts_of(path)
        entry = self._file(parts)
        if entry is not None:
            return f"Here's the content of {path} with line numbers:\n{_numbered(_text_of(entry), view_range)}"
        below = self._below(parts)
        if parts and not below:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return _listing(path, parts, below)

    def create(self, path: str, text: str) -> str:
        """Make a new file."""
        parts = _file_parts(path)
        with self._lock:
            if self._file(parts) is not None or self._below(parts, at_most=1):
                raise ToolError(f"File {path} already exists")
            for length in range(1, len(parts)):
                if self._file(parts[:length]) is not None:
                    raise ToolError(f"{_path_of(parts[:length])} is a file, not a directory")
            self._put(parts, text)
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace the only occurrence of a text in a file."""
        with self._lock:
            entry = self._existing(path)
            text = _text_of(entry)
            count = text.count(old) if old else 0
            if count == 0:
                raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if count > 1:
                numbers = ", ".join(str(number) for number in _lines_with(text, old))
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}. "
                    "Please ensure it is unique"
                )
            line = text[: text.index(old)].count("\n")
            text = text.replace(old, new)
            self._edit(entry, text)
        shown = _numbered(text, [max(1, line + 1 - _CONTEXT), line + 1 + _CONTEXT])
        return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{shown}"

    def insert(self, path: str, line: int, text: str) -> str:
        """Put a text behind a line of a file, 0 for its beginning."""
        with self._lock:
            entry = self._existing(path)
            lines = _text_of(entry).removesuffix("\n").split("\n") if _text_of(entry) else []
            if not 0 <= line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
                )
            lines.insert(line, text.rstrip("\n"))
            changed = "\n".join(lines)
            self._edit(entry, changed if changed.endswith("\n") else changed + "\n")
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Take a file away, or a folder with all that is in it."""
        parts = parts_of(path)
        if not parts:
            raise ToolError(f"Cannot delete the {_ROOT} directory itself")
        with self._lock:
            entry = self._file(parts)
            found = [entry] if entry is not None else self._below(parts)
            if not found:
                raise ToolError(f"The path {path} does not exist")
            self._forget(found)
        return f"Successfully deleted {path}"

    def rename(self, old: str, new: str) -> str:
        """Move a file, or a folder with all that is in it; what was moved is written before the old is taken away."""
        source, target = parts_of(old), _file_parts(new)
        if not source:
            raise ToolError(f"Cannot rename the {_ROOT} directory itself")
        with self._lock:
            if self._file(target) is not None or self._below(target, at_most=1):
                raise ToolError(f"The destination {new} already exists")
            entry = self._file(source)
            found = [entry] if entry is not None else self._below(source)
            if not found:
                raise ToolError(f"The path {old} does not exist")
            if any(self._file(target[:length]) is not None for length in range(1, len(target))):
                raise ToolError(f"The destination {new} lies below a file")
            if target[: len(source)] == source:
                raise ToolError(f"The destination {new} lies below {old}")
            if entry is not None:
                self._move(entry, target)
            else:
                moved = [self._fields((*target, *_parts_of(each)[len(source) :]), _text_of(each)) for each in found]
                write(self._memory, self._agent_id, moved)
                self._forget(found)
        return f"Successfully renamed {old} to {new}"

    def clear(self) -> str:
        """Take all files away."""
        with self._lock:
            self._forget(self._below(()))
        return "All memory cleared"

    def _file(self, parts: tuple[str, ...]) -> MemoryEntry | None:
        if not parts:
            return None
        return self._memory.get_by_key(self._agent_id, _key_of(parts), namespace=self._namespace)

    def _existing(self, path: str) -> MemoryEntry:
        parts = parts_of(path)
        entry = self._file(parts)
        if entry is None:
            if not parts or self._below(parts, at_most=1):
                raise ToolError(f"The path {path} is not a file.")
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return entry

    def _below(self, parts: tuple[str, ...], *, at_most: int | None = None) -> list[MemoryEntry]:
        """Return the files in a folder and in all folders in it."""
        wanted = {_FILES: self._namespace} | {f"{_PATH}.{place}": part for place, part in enumerate(parts)}
        found: list[MemoryEntry] = []
        for entry in listed(self._memory, self._agent_id, attributes=wanted):
            if entry.namespace == self._namespace and len(_parts_of(entry)) > len(parts):
                found.append(entry)
            if at_most is not None and len(found) == at_most:
                break
        return found

    def _put(self, parts: tuple[str, ...], text: str) -> MemoryEntry:
        """Write a file where there is none. Raises MemoryConflictError."""
        return self._memory.put(self._agent_id, **self._fields(parts, text), only_new=True)

    def _move(self, entry: MemoryEntry, target: tuple[str, ...]) -> None:
        """Write a file elsewhere, then take it away. Raises MemoryConflictError where it was edited in between."""
        copy = self._put(target, _text_of(entry))
        try:
            self._memory.forget(self._agent_id, entry.id, expected=entry.id)
        except MemoryConflictError:
            self._forget([copy])
            raise

    def _fields(self, parts: tuple[str, ...], text: str) -> dict[str, Any]:
        content, blank = _kept(text)
        path = {str(place): part for place, part in enumerate(parts)}
        return {
            "content": content,
            "category": self._category,
            "namespace": self._namespace,
            "key": _key_of(parts),
            "attributes": {_FILES: self._namespace, _PATH: path, **blank},
            "source": SOURCE,
        }

    def _edit(self, entry: MemoryEntry, text: str) -> None:
        content, blank = _kept(text)
        attributes = {name: value for name, value in entry.attributes.items() if name != _BLANK}
        self._memory.update(self._agent_id, entry.id, content=content, attributes={**attributes, **blank})

    def _forget(self, entries: Iterable[MemoryEntry]) -> None:
        forget(self._memory, self._agent_id, [entry.id for entry in entries])


def parts_of(path: str) -> tuple[str, ...]:
    """Return the names of a path below /memories, none for that folder itself. Raises ToolError for any other path."""
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        raise ToolError(f"Path must start with {_ROOT}, got: {path}")
    below = path[len(_ROOT) :].removeprefix("/").removesuffix("/")
    parts = tuple(below.split("/")) if below else ()
    if any(part in {".", ".."} for part in parts):
        raise ToolError(f"Path {path} would escape {_ROOT} directory")
    if "" in parts or "\\" in below or UNSEEN.search(below):
        raise ToolError("A path has names with / between them, without backslashes and control characters")
    if len(_key_of(parts)) > MAX_KEY_CHARS:
        raise ToolError(f"A path has at most {MAX_KEY_CHARS} characters below {_ROOT}")
    return parts


def _file_parts(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts:
        raise ToolError(f"File {path} already exists")
    return parts


def _key_of(parts: tuple[str, ...]) -> str:
    return escaped_name("/".join(parts))


def _parts_of(entry: MemoryEntry) -> tuple[str, ...]:
    return tuple(plain_name(entry.key or "").split("/"))


def _path_of(parts: Iterable[str]) -> str:
    return "/".join([_ROOT, *parts])


def _kept(text: str) -> tuple[str, dict[str, str]]:
    """Return a file's text as the content of a memory, and as an attribute where it is blank. Raises ToolError."""
    if not text.strip():
        if len(text) > _MAX_BLANK:
            raise ToolError(f"A file of white space has at most {_MAX_BLANK} characters")
        return _PLACEHOLDER, {_BLANK: text}
    if (size := len(text.encode(errors="replace"))) > MAX_CONTENT_BYTES:
        raise ToolError(f"The file would have {size} bytes; the limit is {MAX_CONTENT_BYTES}. Use several files.")
    return text, {}


def _text_of(entry: MemoryEntry) -> str:
    blank = entry.attributes.get(_BLANK)
    return blank if isinstance(blank, str) and entry.content == _PLACEHOLDER else entry.content


def _numbered(text: str, view_range: list[int] | None) -> str:
    """Return lines behind their numbers: all, or from the first to the last of a range, in which -1 is the end."""
    lines = text.split("\n")
    first, last = view_range if view_range and len(view_range) == 2 else (1, -1)  # noqa: PLR2004  # first and last
    first = max(1, first)
    shown = lines[first - 1 : len(lines) if last == -1 else max(0, last)]
    return "\n".join(f"{number:>{_NUMBER_CHARS}}\t{line}" for number, line in enumerate(shown, start=first))


def _lines_with(text: str, part: str) -> list[int]:
    """Return the numbers of the lines in which a text begins, each time that it does."""
    return [text[: found.start()].count("\n") + 1 for found in re.finditer(f"(?={re.escape(part)})", text)]


def _listing(path: str, parts: tuple[str, ...], below: Iterable[MemoryEntry]) -> str:
    """Return the files and folders in a folder, two levels deep, each with its size; hidden ones are left out."""
    sizes: dict[tuple[str, ...], int] = {(): 0}
    folders: set[tuple[str, ...]] = set()
    for entry in below:
        names, size = _parts_of(entry)[len(parts) :], len(_text_of(entry).encode(errors="replace"))
        if any(name.startswith(".") for name in names):
            continue
        for length in range(len(names) + 1):
            sizes[names[:length]] = sizes.get(names[:length], 0) + size
        folders.update(names[:length] for length in range(1, len(names)))
    base = path.removesuffix("/")
    lines = [f"{_size(sizes.pop(()))}\t{base}"]
    for names, size in sorted(sizes.items()):
        if len(names) <= _LEVELS:
            lines.append(f"{_size(size)}\t{'/'.join([base, *names])}{'/' if names in folders else ''}")
    shown = "\n".join(lines)
    return f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{shown}"


def _size(count: int) -> str:
    """Return a number of bytes as 12B, 1.5K or 2M."""
    if count < 1024:  # noqa: PLR2004  # a kibibyte
        return f"{count}B"
    kibibytes = count / 1024
    value, unit = (kibibytes, "K") if kibibytes < 1024 else (kibibytes / 1024, "M")  # noqa: PLR2004  # as above
    return f"{value:.0f}{unit}" if value == int(value) else f"{value:.1f}{unit}"


#: Times that a command is done before the model gets an error, and the longest pause between two.
_ATTEMPTS, _PAUSE_SECONDS = 50, 0.05

_P = ParamSpec("_P")


def _answered(command: "Callable[_P, str]", *given: "_P.args", **named: "_P.kwargs") -> str:
    """Return what a command returns; an error of memory becomes one that the model reads.

    Each command reads before it writes: where another tool has written in between, it is done again.
    """
    try:
        for _ in range(_ATTEMPTS - 1):
            try:
                return command(*given, **named)
            except MemoryConflictError:
                time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311  # no secret
        return command(*given, **named)
    except MemoryInputError as error:
        raise ToolError(str(error)) from error
    except MemoryError as error:
        raise ToolError(f"Memory cannot be used now ({type(error).__name__}); try again later") from error


class MemtendMemoryTool(BetaAbstractMemoryTool):
    """Give Claude the memory tool over an agent's memories.

    ::

        tool = MemtendMemoryTool(memory, agent_id="oncall")
        client.beta.messages.run_tools(model=..., messages=..., tools=[tool]).until_done()

    A file is a memory of at most 64 KiB, which searches of the agent find too; a path has at most 256 characters
    below ``/memories``. Deleted and edited files can be brought back, by an undo of the run.

    Args:
        memory: a ``Memory``, or what ``Memory.connect`` returns. It stays open.
        agent_id: whose memories the files are.
        namespace: where they are kept; tools with the same one share their files.
        category: of the memories.
    """

    def __init__(
        self,
        memory: MemoryLike,
        *,
        agent_id: str,
        namespace: str = "memory-tool",
        category: str = "semantic",
        cache_control: "BetaCacheControlEphemeralParam | None" = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(memory, agent_id=agent_id, namespace=namespace, category=category)

    def view(self, command: "BetaMemoryTool20250818ViewCommand") -> str:
        """Show a file or a folder."""
        return _answered(self._files.view, command.path, command.view_range)

    def create(self, command: "BetaMemoryTool20250818CreateCommand") -> str:
        """Make a new file."""
        return _answered(self._files.create, command.path, command.file_text)

    def str_replace(self, command: "BetaMemoryTool20250818StrReplaceCommand") -> str:
        """Replace a text of a file."""
        return _answered(self._files.str_replace, command.path, command.old_str, command.new_str)

    def insert(self, command: "BetaMemoryTool20250818InsertCommand") -> str:
        """Put a text behind a line of a file."""
        return _answered(self._files.insert, command.path, command.insert_line, command.insert_text)

    def delete(self, command: "BetaMemoryTool20250818DeleteCommand") -> str:
        """Take a file or a folder away."""
        return _answered(self._files.delete, command.path)

    def rename(self, command: "BetaMemoryTool20250818RenameCommand") -> str:
        """Move a file or a folder."""
        return _answered(self._files.rename, command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        """Take all files away."""
        return _answered(self._files.clear)


class AsyncMemtendMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for ``AsyncAnthropic``; see MemtendMemoryTool. Its commands run in threads."""

    def __init__(
        self,
        memory: MemoryLike,
        *,
        agent_id: str,
        namespace: str = "memory-tool",
        category: str = "semantic",
        cache_control: "BetaCacheControlEphemeralParam | None" = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = MemtendMemoryTool(memory, agent_id=agent_id, namespace=namespace, category=category)

    async def view(self, command: "BetaMemoryTool20250818ViewCommand") -> str:
        """Show a file or a folder."""
        return await asyncio.to_thread(self._tool.view, command)

    async def create(self, command: "BetaMemoryTool20250818CreateCommand") -> str:
        """Make a new file."""
        return await asyncio.to_thread(self._tool.create, command)

    async def str_replace(self, command: "BetaMemoryTool20250818StrReplaceCommand") -> str:
        """Replace a text of a file."""
        return await asyncio.to_thread(self._tool.str_replace, command)

    async def insert(self, command: "BetaMemoryTool20250818InsertCommand") -> str:
        """Put a text behind a line of a file."""
        return await asyncio.to_thread(self._tool.insert, command)

    async def delete(self, command: "BetaMemoryTool20250818DeleteCommand") -> str:
        """Take a file or a folder away."""
        return await asyncio.to_thread(self._tool.delete, command)

    async def rename(self, command: "BetaMemoryTool20250818RenameCommand") -> str:
        """Move a file or a folder."""
        return await asyncio.to_thread(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        """Take all files away."""
        return await asyncio.to_thread(self._tool.clear_all_memory)
