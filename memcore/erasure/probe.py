"""Searches every file of a data folder for texts that were erased."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memcore.errors import MemoryInputError
from memcore.models.base import Frozen

#: Bytes read at a time; a text that lies across two pieces is found, since their ends overlap.
_PIECE = 1024 * 1024

#: Shortest text to look for, in bytes: a shorter one stands in any file by chance.
SHORTEST = 8

#: Makes a hash of eight bytes, of so many bits: the odd factor spreads what differs over the upper ones.
_FACTOR, _HASH_BITS = np.uint64(0x9E3779B97F4A7C15), 16

#: Most texts of one search.
MOST = 1_000


class ProbeHit(Frozen):
    """A file that holds a text.

    Attributes:
        file: its path, from the data folder.
        probe: the place of the text among those given, from 1: the text itself is not repeated.
        encoding: how the file holds it.
    """

    file: str
    probe: int
    encoding: str


def _forms(text: str) -> Iterator[tuple[str, bytes]]:
    plain = text.encode("utf-8", "surrogatepass")
    seen = {plain}
    yield "utf-8", plain
    for name, form in (
        ("json", json.dumps(text)[1:-1].encode()),
        ("utf-16", text.encode("utf-16-le", "surrogatepass")),
    ):
        if form not in seen:
            seen.add(form)
            yield name, form
    # Inside other bytes, Base64 has three forms of a text, by its place: the middle of each is its own.
    for skip in range(3):
        whole = b64encode(b"\0" * skip + plain)
        yield "base64", whole[4 if skip else 0 : -4]


def search_files(
    folder: Path, probes: Sequence[str], watch: Callable[[int, int], None] | None = None
) -> list[ProbeHit]:
    """Return which files below a folder hold which of the texts, in UTF-8, JSON, UTF-16 or Base64.

    It reads every regular file, whatever its name; a file that goes meanwhile holds nothing. ``watch`` is called after
    each, with how many were read, and of how many. Raises MemoryInputError
    for a text that is too short, OSError for a file that cannot be read.
    """
    if not 1 <= len(probes) <= MOST:
        raise MemoryInputError("probe", f"must be 1 to {MOST} texts")
    forms: list[tuple[int, str, bytes]] = []
    for number, text in enumerate(probes, start=1):
        if len(text.encode("utf-8", "surrogatepass")) < SHORTEST:
            raise MemoryInputError("probe", f"must have at least {SHORTEST} bytes")
        forms += [(number, name, form) for name, form in _forms(text) if len(form) >= SHORTEST]
    index, overlap = _Index(forms), max(len(form) for _, _, form in forms) - 1
    hits: list[ProbeHit] = []
    paths = [path for path in sorted(folder.rglob("*")) if not path.is_symlink() and path.is_file()]
    for number_read, path in enumerate(paths, start=1):
        place = path.relative_to(folder).as_posix()
        hits += [
            ProbeHit(file=place, probe=number, encoding=name) for number, name in _in_file(path, index, overlap=overlap)
        ]
        if watch is not None:
            watch(number_read, len(paths))
    return hits


class _Index:
    """Finds which of many forms a piece of a file holds, by their first eight bytes: one search for all of them."""

    def __init__(self, forms: Sequence[tuple[int, str, bytes]]) -> None:
        self._forms: dict[int, list[tuple[int, str, bytes]]] = {}
        for each in forms:
            self._forms.setdefault(int.from_bytes(each[2][:SHORTEST], "little"), []).append(each)
        self._begins = np.array(sorted(self._forms), dtype=np.uint64)
        self._is_known = np.zeros(1 << _HASH_BITS, dtype=np.bool_)
        self._is_known[_hashed(self._begins)] = True

    def found(self, content: bytes) -> list[tuple[int, str]]:
        """Return the forms that these bytes hold."""
        if not content.strip(b"\0"):
            return []  # most of a log that is made in advance
        begins: set[int] = set()
        for skip in range(SHORTEST):
            count = (len(content) - skip) // SHORTEST
            if count > 0:
                parts = np.frombuffer(content, dtype="<u8", count=count, offset=skip)
                likely = parts[self._is_known[_hashed(parts)]]
                begins.update(np.intersect1d(likely, self._begins).tolist())
        near = (each for begin in begins for each in self._forms[begin])
        return [(number, name) for number, name, form in near if form in content]


def _hashed(parts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return (parts * _FACTOR) >> np.uint64(64 - _HASH_BITS)


def _in_file(path: Path, index: _Index, *, overlap: int) -> list[tuple[int, str]]:
    found: dict[tuple[int, str], None] = {}
    end = b""
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                content = end + piece
                found.update(dict.fromkeys(index.found(content)))
                end = content[-overlap:]
    except FileNotFoundError:
        return []
    return list(found)
