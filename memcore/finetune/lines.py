"""Files of one JSON object a line: written whole or not at all, read line by line."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from memcore.errors import MemoryInputError

Row = TypeVar("Row", bound=BaseModel)


def write_lines(path: Path, rows: Iterable[BaseModel]) -> int:
    """Write the rows and return how many; whoever reads the name sees all of them or the file before."""
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
