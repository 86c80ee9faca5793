"""Finds JSON in a text, also where people or models wrote it carelessly; it executes nothing.

Read are also: trailing commas, comments, names and strings in other quotes or, of names, in none, Python's literals,
line breaks and unknown escapes in strings. What is not closed is not read. Every character is looked at a few times at
most, whatever the text: what breaks is left where it broke, and the search goes on from there.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

#: Deepest nesting that is read.
MAX_DEPTH = 64

#: How often the text may be searched for the ends of strings that have none, in lengths of it.
_MOST_SEARCHED = 8


class Found(NamedTuple):
    """A value, where it stands, and whether it was read inside of one that breaks off later."""

    value: object
    start: int
    end: int
    is_inner: bool = False


class _BrokenError(Exception):
    """Here stands no JSON."""


#: An object begins with a name or is empty; a string may hold an object or a list.
_OPENING = re.compile('\\{(?=[\\s"\'\u201c\u201d\u201e\u2018\u2019\\w}/#\ufeff\u200b])|\\[|"(?=\\\\?[{\\[])')
_OPENINGS = re.compile(r"[{\[]*")
_BLANK = re.compile(r"(?:[\s\ufeff\u200b]+|//[^\n]*|\#[^\n]*)*")
_NAME = re.compile(r"[^\W\d][\w-]{0,63}(?=\s{0,8}:)")
_WORD = re.compile(r"(?:(-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,3})?)|([A-Za-z]{4,5}))(?![\w.])")
_LITERALS = {"true": True, "false": False, "null": None, "none": None}

#: What may stand behind a string, so that a quote inside of it does not end it.
_BEHIND = r"(?=\s*(?:[,:}\]]|//|/\*|\#|\Z))"

#: The end of a string by its opening quote; what is escaped ends none.
_ENDS = {
    opening: re.compile(rf"\\.|([{closing}]){_BEHIND}", re.DOTALL)
    for opening, closing in {
        '"': '"',
        "'": "'",
        "\u201c": "\u201c\u201d",
        "\u201d": "\u201c\u201d",
        "\u201e": "\u201c\u201d",
        "\u2018": "\u2018\u2019",
        "\u2019": "\u2018\u2019",
    }.items()
}

_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\.|\"", re.DOTALL)


def found_values(text: str) -> Iterator[Found]:
    """Yield the objects, lists and strings of JSON that stand in a text, in order."""
    scanner, at = _Scanner(text), 0
    while (opening := _OPENING.search(text, at)) is not None:
        scanner.begin(opening.start())
        try:
            value = scanner.value(0)
        except _BrokenError:
            # What reaches the end of the text was cut: nothing in it is an answer.
            if not scanner.is_cut and scanner.at < len(text):
                yield from scanner.inner
            at = max(scanner.at, opening.end())
        else:
            yield Found(value, opening.start(), scanner.at)
            at = scanner.at
        if scanner.searched > _MOST_SEARCHED * len(text):
            return


class _Scanner:
    """Reads values from a place on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last_comment = text.rfind("*/")
        self.at = 0
        self.searched = 0
        #: Whether a string had no end.
        self.is_cut = False
        self.inner: list[Found] = []

    def begin(self, at: int) -> None:
        self.at = at
        self.is_cut = False
        self.inner = []

    def value(self, depth: int) -> object:
        mark = self._next()
        if mark == "{":
            return self._object(depth)
        if mark == "[":
            return self._list(depth)
        if mark in _ENDS:
            return self._string(mark)
        found = _WORD.match(self._text, self.at)
        if found is None or (found[1] is None and found[2].casefold() not in _LITERALS):
            raise _BrokenError
        self.at = found.end()
        return json.loads(found[1]) if found[1] else _LITERALS[found[2].casefold()]

    def _next(self) -> str:
        """Skip blanks and comments, and return the next character; blank at the end."""
        while True:
            blank = _BLANK.match(self._text, self.at)
            self.at = self.at if blank is None else blank.end()
            if not self._text.startswith("/*", self.at) or self.at + 2 > self._last_comment:
                return self._text[self.at : self.at + 1]
            self.at = self._text.index("*/", self.at + 2) + 2

    def _enter(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            # Of many openings in a row, the last one may open something.
            self.at = max(self.at, _OPENINGS.match(self._text, self.at).end() - 1)  # type: ignore[union-attr]
            raise _BrokenError
        self.at += 1

    def _object(self, depth: int) -> dict[str, object]:
        start, found = self.at, dict[str, object]()
        self._enter(depth)
        while self._next() != "}":
            name = self._name()
            if self._next() != ":":
                raise _BrokenError
            self.at += 1
            found[name] = self.value(depth + 1)
            self._separate("}")
        self.at += 1
        if depth:
            self.inner.append(Found(found, start, self.at, is_inner=True))
        return found

    def _list(self, depth: int) -> list[object]:
        found: list[object] = []
        self._enter(depth)
        while self._next() != "]":
            found.append(self.value(depth + 1))
            self._separate("]")
        self.at += 1
        return found

    def _separate(self, closing: str) -> None:
        mark = self._next()
        if mark == ",":
            self.at += 1
        elif mark != closing:
            raise _BrokenError

    def _name(self) -> str:
        mark = self._next()
        if mark in _ENDS:
            return self._string(mark)
        found = _NAME.match(self._text, self.at)
        if found is None:
            raise _BrokenError
        self.at = found.end()
        return found[0]

    def _string(self, quote: str) -> str:
        start, pattern = self.at + 1, _ENDS[quote]
        place = start
        while True:
            end = pattern.search(self._text, place)
            if end is None:
                # Another string may begin where this one seemed to.
                self.searched += len(self._text) - start
                self.at = start
                self.is_cut = True
                raise _BrokenError
            if end[1]:
                break
            place = end.end()
        self.at = end.end()
        body = _ESCAPED.sub(_in_json, self._text[start : end.start()])
        return str(json.loads(f'"{body}"', strict=False))


def _in_json(found: re.Match[str]) -> str:
    """Return an escape as JSON knows it; one that it does not know stands for itself."""
    said = found[0]
    if said == '"':
        return '\\"'
    if said[2:]:
        return said.replace("\\x", "\\u00")
    if said[1] in '"\\/bfnrt':
        return said
    return "'" if said[1] == "'" else f"\\\\{said[1]}"
