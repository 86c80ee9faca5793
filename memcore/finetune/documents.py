"""Documents as passages, in one order everywhere, and the JSON lines files of passages, pairs and triples."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from memcore.errors import MemoryInputError
from memcore.models.base import Frozen
from memcore.models.memory import NotBlankText

#: Where a passage comes from.
PassageSource = Literal["document", "memory", "task", "lesson"]


class Passage(Frozen):
    """A text that an embedder is to find, with the questions known for it: a task's title, or what a model wrote."""

    text: NotBlankText
    source: PassageSource
    questions: tuple[NotBlankText, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A passage, and who pays for a question about it: its agent, or ORGANISATION for a document."""

    agent_id: str
    passage: Passage


#: File endings that are read, and the largest file, in bytes: what is larger is a log or a dump.
SUFFIXES = frozenset({".txt", ".md", ".rst"})
MAX_FILE_BYTES = 16 * 1024 * 1024


def passages_of(folder: Path, *, chunk_words: int) -> Iterator[Passage]:
    """Yield the passages of a folder's documents, file by file in the order of their paths.

    Links are not followed, so that nothing outside of the folder is read, and pipes are no documents. Files that are
    too large, no UTF-8, or not to be opened are passed over. Raises MemoryInputError when there is no such folder.
    """
    if not folder.is_dir():
        raise MemoryInputError("source_dir", "names no folder")
    for path in documents_of(folder):
        for chunk in chunks(_text(path), words=chunk_words):
            yield Passage(text=chunk, source="document")


def chunks(text: str, *, words: int) -> Iterator[str]:
    """Yield the text in pieces of at most so many words, with single spaces between them."""
    every = text.replace("\0", " ").split()
    for start in range(0, len(every), words):
        yield " ".join(every[start : start + words])


def documents_of(folder: Path) -> Iterator[Path]:
    """Yield the paths of a folder's documents, in one order everywhere; links are not followed."""
    for place, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix.lower() in SUFFIXES and stat.S_ISREG(path.lstat().st_mode):
                yield path


def _text(path: Path) -> str:
    try:
        return "" if path.stat().st_size > MAX_FILE_BYTES else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


class Pair(Frozen):
    """A question and its passage; a line of ``training.jsonl`` or ``validation.jsonl``.

    ``is_asked`` tells a question that somebody asked, or a model wrote, from one that a template made.
    """

    query: NotBlankText
    positive_passage: NotBlankText
    is_asked: bool = False


class Triple(Frozen):
    """A question, its passage, and passages that look like it and are not; a line of ``training_triples.jsonl``."""

    query: NotBlankText
    positive: NotBlankText
    negatives: tuple[NotBlankText, ...]


Row = TypeVar("Row", bound=BaseModel)


def write_lines(path: Path, rows: Iterable[BaseModel]) -> int:
    """Write the rows and return how many; readers see all of them or the file before."""
    count = 0
    with _whole(path) as file:
        for count, row in enumerate(rows, start=1):  # noqa: B007  # the last one is how many
            file.write(f"{row.model_dump_json()}\n")
    return count


@contextmanager
def _whole(path: Path) -> Iterator[IO[str]]:
    """Yield a file that takes the path's place when all is on the disk."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def read_lines(path: Path, model: type[Row]) -> Iterator[Row]:
    """Yield the rows of a file. Raises MemoryInputError, naming file and line, when one is none of these."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield model.model_validate_json(line, extra="ignore")
                except ValidationError:
                    raise MemoryInputError(path.name, f"line {number} has another form") from None
    except (OSError, UnicodeDecodeError):
        raise MemoryInputError(path.name, "cannot be read") from None


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    with _whole(path) as file:
        file.write(text)


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
