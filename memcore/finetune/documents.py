"""Documents of a folder as passages: read in one order everywhere, cut into pieces of so many words."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memcore.errors import MemoryInputError
from memcore.finetune.passage import Passage

#: What is read.
SUFFIXES = frozenset({".txt", ".md", ".rst"})

#: Largest file that is read, in bytes: what is larger is a log or a dump.
MAX_FILE_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class Reading:
    """What was read of a folder.

    Attributes:
        files: how many gave passages.
        skipped: names of those that did not: too large, no UTF-8, empty, or not to be opened.
    """

    files: int = 0
    skipped: list[str] = field(default_factory=list)


def passages_of(folder: Path, *, chunk_words: int, reading: Reading) -> Iterator[Passage]:
    """Yield the passages of a folder's documents, file by file in the order of their paths.

    Links are not followed, so that nothing outside of the folder is read, and pipes are no documents.

    Args:
        folder: where the documents are.
        chunk_words: most words of a passage.
        reading: is told what was read.

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
