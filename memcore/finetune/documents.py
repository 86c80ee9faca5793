"""Documents as passages, in one order everywhere, and the JSON lines files of passages, pairs and triples."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from memcore.errors import MemoryInputError
from memcore.models.base import Frozen
from memcore.models.memory import NotBlankText

#: Where a passage comes from.
PassageSource = Literal["document", "memory", "task", "lesson"]


class Passage(Frozen):
    """A text that an embedder is to find.

    Attributes:
        text: the passage, as it is embedded.
        source: what kind of thing it is.
        questions: known questions for it, such as a task's title, or what a model wrote; empty where none is known.
    """

    text: NotBlankText
    source: PassageSource
    questions: tuple[NotBlankText, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A passage, and the payer of a question about it.

    Attributes:
        agent_id: whose memory it is; ORGANISATION (memcore.backends.protocol) for a document.
    """

    agent_id: str
    passage: Passage


#: File endings that are read.
SUFFIXES = frozenset({".txt", ".md", ".rst"})

#: Largest file that is read, in bytes: what is larger is a log or a dump.
MAX_FILE_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class ChunkedDocument:
    """Counts of a folder's reading.

    Attributes:
        files: how many gave passages.
        skipped: names of those that did not: too large, no UTF-8, empty, or not to be opened.
    """

    files: int = 0
    skipped: list[str] = field(default_factory=list)


def passages_of(folder: Path, *, chunk_words: int, reading: ChunkedDocument) -> Iterator[Passage]:
    """Yield the passages of a folder's documents, file by file in the order of their paths.

    Links are not followed, so that nothing outside of the folder is read, and pipes are no documents.

    Args:
        folder: where the documents are.
        chunk_words: most words of a passage.
        reading: takes the counts.

    Raises:
        MemoryInputError: source_dir: there is no such folder.
    """
    if not folder.is_dir():
        raise MemoryInputError("source_dir", "names no folder")
    for path in documents_of(folder):
        text = _text(path)
        if text is None or not text.strip():
            reading.skipped.append(path.relative_to(folder).as_posix())
            continue
        reading.files += 1
        for chunk in chunks(text, words=chunk_words):
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


def _text(path: Path) -> str | None:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return None
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


class Pair(Frozen):
    """A question and its passage; a line of ``training.jsonl`` or ``validation.jsonl``."""

    query: NotBlankText
    positive_passage: NotBlankText


class Triple(Frozen):
    """A question, its passage, and passages that look like it and are not; a line of ``training_triples.jsonl``."""

    query: NotBlankText
    positive: NotBlankText
    negatives: tuple[NotBlankText, ...]


Row = TypeVar("Row", bound=BaseModel)


def write_lines(path: Path, rows: Iterable[BaseModel]) -> int:
    """Write the rows and return how many; readers see all of them or the file before."""
    count = 0
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(f"{row.model_dump_json()}\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return count


def read_lines(path: Path, model: type[Row]) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises MemoryInputError: the file is missing, or a line is none of these; the message names file and line.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield model.model_validate_json(line)
                except ValidationError:
                    raise MemoryInputError(path.name, f"line {number} has another form") from None
    except (OSError, UnicodeDecodeError):
        raise MemoryInputError(path.name, "cannot be read") from None


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
