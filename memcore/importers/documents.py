"""Files of records, read in a stream: JSON lines, JSON documents and SQLite databases, whatever their size."""

import codecs
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from memcore.errors import MemoryInputError

#: Longest line, and longest value of a document, in bytes: many times the largest memory, with a vector beside it.
MAX_VALUE_BYTES = 4 * 2**20

#: Bytes read at a time.
_PORTION = 2**16

#: How deep a document may be nested.
_MAX_DEPTH = 32

#: The first bytes of every SQLite database.
_SQLITE = b"SQLite format 3\x00"

_SPACE = " \t\n\r"
_BOM = "\ufeff"

#: The place of a value in a document: keys, and numbers of list items.
Place: TypeAlias = tuple[str | int, ...]

#: Says whether the value at a place is wanted whole; what is not is looked into.
Wanted: TypeAlias = Callable[[Place], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One record of a file, as it stands there, or the reason why nobody can read it.

    Attributes:
        number: its line, or its number among the records of the file, from 1.
        place: where in a document it stands; empty for a line and a row.
    """

    number: int
    value: Any = None
    place: Place = ()
    problem: MemoryInputError | None = None


def is_sqlite(path: Path) -> bool:
    """Return whether a file is a SQLite database. Raises MemoryInputError when it cannot be read."""
    with opened(path) as file:
        return file.read(len(_SQLITE)) == _SQLITE


def is_lines(path: Path, lists: Collection[str]) -> bool:
    """Return whether a file has an object on each line, rather than one document, whose ``lists`` hold the objects."""
    with opened(path) as file:
        first = file.readline(MAX_VALUE_BYTES)
        while first and not first.strip():
            first = file.readline(MAX_VALUE_BYTES)
        try:
            value = json.loads(first)
        except (ValueError, RecursionError):
            return False
        # A list is a document even on one line, and so is an object around lists.
        if not isinstance(value, dict):
            return False
        return not any(isinstance(value.get(each), (list, dict)) for each in lists)


def listed(path: Path, lists: Collection[str]) -> Iterator[Found]:
    """Yield the values of each line, or those of a document's list, or of the ``lists`` in it."""

    def is_wanted(place: Place) -> bool:
        match place:
            case (int(),):
                return True
            case (str(name), int()):
                return name in lists
            case _:
                return False

    is_line_each = is_lines(path, lists)
    with opened(path) as file:
        yield from lines(file) if is_line_each else values(file, is_wanted)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that is open for reading. Raises MemoryInputError when it cannot be read."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise MemoryInputError("file", f"cannot be read ({error.strerror or type(error).__name__})") from None


def lines(file: IO[bytes]) -> Iterator[Found]:
    """Yield the JSON value of each line that is not blank; a line that is none is a problem, and the next goes on."""
    number = 0
    # Not by the iterator of the file: a line without an end would be read whole.
    while line := file.readline(MAX_VALUE_BYTES + 1):
        number += 1
        if len(line) > MAX_VALUE_BYTES:
            while line and not line.endswith(b"\n"):
                line = file.readline(_PORTION)
            yield Found(number=number, problem=MemoryInputError("line", f"has more than {MAX_VALUE_BYTES} bytes"))
        elif line.strip():
            yield _parsed(number, line)


def _parsed(number: int, line: bytes) -> Found:
    try:
        return Found(number=number, value=json.loads(line.decode("utf-8-sig")))
    except (ValueError, RecursionError):
        return Found(number=number, problem=MemoryInputError("line", "is not JSON"))


def values(file: IO[bytes], wanted: Wanted) -> Iterator[Found]:
    """Yield the wanted values of a JSON document, in order; a document that breaks off ends with a problem."""
    number = 0
    try:
        for place, value in _Scanner(file).walk((), wanted):
            number += 1
            yield Found(number=number, value=value, place=place)
    except MemoryInputError as error:
        yield Found(number=number + 1, problem=error)


class _Scanner:
    """Walks through one JSON document, and holds no more of it than its largest wanted value."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._is_whole = "", 0, False
        self._json = json.JSONDecoder()

    def walk(self, place: Place, wanted: Wanted) -> Iterator[tuple[Place, Any]]:
        """Yield the wanted values at and below a place, with their places."""
        if len(place) > _MAX_DEPTH:
            raise MemoryInputError("file", f"is nested deeper than {_MAX_DEPTH} levels")
        opener = self._next()
        if wanted(place):
            yield place, self._value()
        elif opener == "{":
            yield from self._members(place, wanted)
        elif opener == "[":
            yield from self._items(place, wanted)
        else:
            self._value()

    def _members(self, place: Place, wanted: Wanted) -> Iterator[tuple[Place, Any]]:
        self._at += 1
        while self._next() != "}":
            name = self._value()
            if not isinstance(name, str) or self._next() != ":":
                raise _broken()
            self._at += 1
            yield from self.walk((*place, name), wanted)
            self._separator("}")
        self._at += 1

    def _items(self, place: Place, wanted: Wanted) -> Iterator[tuple[Place, Any]]:
        self._at += 1
        number = 0
        while self._next() != "]":
            yield from self.walk((*place, number), wanted)
            number += 1
            self._separator("]")
        self._at += 1

    def _separator(self, closer: str) -> None:
        found = self._next()
        if found == ",":
            self._at += 1
        elif found != closer:
            raise _broken()

    def _next(self) -> str:
        """Return the next character that is no white space, without taking it."""
        while True:
            while self._at < len(self._text):
                found = self._text[self._at]
                if found not in _SPACE and found != _BOM:
                    return found
                self._at += 1
            if not self._read():
                raise _broken()

    def _value(self) -> Any:
        """Take the value that begins here."""
        self._next()
        while True:
            value, end = None, None
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise MemoryInputError("file", "is nested too deep") from None
            except ValueError:
                pass  # it may be whole with what is read next
            # A number at the end of what was read may go on: 1 is the beginning of 1.5 and of 1e9.
            if end is not None and (self._is_whole or (end < len(self._text) and self._text[end] not in ".eE")):
                self._at = end
                return value
            if len(self._text) - self._at > MAX_VALUE_BYTES:
                raise MemoryInputError("file", f"has a value of more than {MAX_VALUE_BYTES} bytes")
            if not self._read(len(self._text) - self._at):
                raise _broken()

    def _read(self, least: int = 0) -> bool:
        """Read on, as much as is held at least: a value is then tried a few times, however long it is."""
        if self._is_whole:
            return False
        portion = self._file.read(max(_PORTION, least))
        try:
            more = self._decoder.decode(portion, final=not portion)
        except UnicodeDecodeError:
            raise MemoryInputError("file", "is not UTF-8 text") from None
        self._text, self._at = self._text[self._at :] + more, 0
        self._is_whole = not portion
        return True


def _broken() -> MemoryInputError:
    return MemoryInputError("file", "is not a whole JSON document")


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that only reads. Raises MemoryInputError when the file is no database, or breaks off."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            yield connection
    except sqlite3.Error as error:
        raise MemoryInputError("file", f"cannot be read as a SQLite database ({type(error).__name__})") from None


def tables(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the names of a database's tables."""
    return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


def columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """Return the names of a table's columns."""
    return frozenset(row["name"] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,)))


def text_of(value: Any) -> str | None:
    """Return a text that says something; None for anything else."""
    return value if isinstance(value, str) and value.strip() else None


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, also one that stands as text in a column; empty for anything else."""
    if isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
