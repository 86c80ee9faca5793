"""What frameworks give, kept exactly: values as attributes or as JSON text, names as keys and namespaces."""

import copy
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.models.attributes import MAX_ATTRIBUTE_BYTES
from memcore.models.base import UNSEEN
from memcore.models.memory import MAX_CONTENT_BYTES, MAX_KEY_CHARS, MemoryEntry

#: Most bytes of a value as JSON (56 KiB): with a text to search by before it, it must fit into a memory.
MAX_VALUE_BYTES = 57_344

#: Most bytes of the text to search by, before a value that is kept as JSON text.
_HEAD_BYTES = MAX_CONTENT_BYTES - MAX_VALUE_BYTES - 1

#: Deepest value that is kept as an attribute: parsers of stores have a limit, the smallest of them 128.
_DEPTH = 32

#: Above these, parsers of stores may return a number beside the one that was given.
_EXACT_INT, _EXACT_DIGITS, _EXACT_EXPONENT = 2**53, 15, 1e22

#: The attributes that an adapter's own may not be named like.
VALUE, VALUE_FROM, AS_TEXT = "value", "value_from", "as_text"

#: Makes a text that no other call makes.
NewId = Callable[[], str]


def new_id() -> str:
    """Return 32 random hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A value in the form of a memory."""

    content: str
    attributes: dict[str, Any]


def as_json(value: object) -> str:
    """Return a value as JSON text in ASCII. Raises MemoryInputError for what JSON has no form for."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(error).__name__
        raise MemoryInputError("value", f"must be JSON: numbers, texts, lists and mappings ({kind})") from None


def kept(value: object, *, text: str, attributes: Mapping[str, Any]) -> Kept:
    """Return a value with the text to search by and attributes beside it.

    A small and plain value becomes an attribute, by which searches filter; any other JSON stands in the content, behind
    the text. Raises MemoryInputError for a value above 56 KiB.
    """
    # Of the text alone: in the value it is escaped, and comes back.
    text = text.replace("\0", " ")
    written = as_json(value)
    read = json.loads(written)
    if is_plain(read) and _size({**attributes, VALUE: read}) <= MAX_ATTRIBUTE_BYTES:
        return Kept(content=clipped(text, MAX_CONTENT_BYTES), attributes={**attributes, VALUE: read})
    if len(written) > MAX_VALUE_BYTES:
        raise MemoryInputError("value", f"has {len(written)} bytes as JSON; the limit is {MAX_VALUE_BYTES}")
    head = clipped(text, _HEAD_BYTES) + "\n"
    return Kept(content=head + written, attributes={**attributes, AS_TEXT: True, VALUE_FROM: len(head)})


def value_of(entry: MemoryEntry) -> Any:
    """Return the value that a memory keeps. Raises MemoryRetrievalError when its text was changed by somebody else."""
    if VALUE in entry.attributes:
        return copy.deepcopy(entry.attributes[VALUE])
    try:
        return json.loads(entry.content[entry.attributes[VALUE_FROM] :])
    except (KeyError, TypeError, ValueError):
        raise MemoryRetrievalError(f"memory {entry.id} holds no value of a framework's any more") from None


def is_plain(value: object, depth: int = _DEPTH) -> bool:
    """Return whether every store returns this JSON value exactly as it was given."""
    match value:
        case int():
            return abs(value) <= _EXACT_INT
        case float():
            return _is_plain_float(value)
        case str():
            return "\0" not in value and _is_unicode(value)
        case list():
            return depth > 0 and all(is_plain(each, depth - 1) for each in value)
        case dict():
            pairs = value.items()
            return depth > 0 and all(is_plain(name) and is_plain(each, depth - 1) for name, each in pairs)
        case _:
            return value is None


def _is_plain_float(value: float) -> bool:
    if value == 0:
        return math.copysign(1, value) > 0
    is_near = 1 / _EXACT_EXPONENT < abs(value) < _EXACT_EXPONENT
    return is_near and float(f"{value:.{_EXACT_DIGITS}g}") == value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _size(attributes: Mapping[str, Any]) -> int:
    return len(json.dumps(attributes, ensure_ascii=False, separators=(",", ":")).encode())


def clipped(text: str, limit: int) -> str:
    """Return the beginning of a text, in as many whole characters as have this many bytes in UTF-8."""
    return text.encode(errors="replace")[:limit].decode(errors="ignore")


def text_in(value: object) -> str:
    """Return what a JSON value says, a line for each text or number in it, behind the names that lead to it."""
    lines: list[str] = []

    def add(path: str, found: object, depth: int) -> None:
        match found:
            case Mapping() if depth:
                for name, each in found.items():
                    add(f"{path}.{name}" if path else str(name), each, depth - 1)
            case list() | tuple() if depth:
                for each in found:
                    add(path, each, depth - 1)
            case str() | int() | float():
                lines.append(f"{path}: {found}" if path else str(found))

    add("", value, _DEPTH)
    return "\n".join(lines)


#: What a key or namespace may not have, or not at its ends, and the sign that stands for it with two digits.
_ESCAPED = re.compile(rf"%|{UNSEEN.pattern}")

#: The name of the empty text.
_EMPTY = "%"


def escaped_name(name: str, *, also: str = "") -> str:
    """Return a framework's name as memtend takes names: no control characters, no outer white space, not empty."""
    pattern = re.compile(f"{_ESCAPED.pattern}|[{re.escape(also)}]") if also else _ESCAPED
    inner = name.strip()
    start = name.find(inner)
    outer = _percent(name[:start]), _percent(name[start + len(inner) :])
    return pattern.sub(lambda found: _percent(found[0]), inner).join(outer) or _EMPTY


def plain_name(escaped: str) -> str:
    """Return the framework's name that was escaped."""
    return "" if escaped == _EMPTY else unquote(escaped, errors="surrogatepass")


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode(errors="surrogatepass"))


def checked_length(name: str, field: str) -> str:
    """Return a name that is short enough to be a key or namespace. Raises MemoryInputError."""
    if len(name) > MAX_KEY_CHARS:
        raise MemoryInputError(field, f"has {len(name)} characters as memtend keeps it; the limit is {MAX_KEY_CHARS}")
    return name
