"""Attributes: the free fields that a caller gives a memory, and the filters that ask for them."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    JsonValue,
    PlainSerializer,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from memcore.models.base import ReadOnlyMap

#: Most bytes of a memory's attributes, as JSON (8 KiB).
MAX_ATTRIBUTE_BYTES = 8_192

#: The integers that stores keep: those of 64 bits, with or without a sign.
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1

#: Most parts of the path to an attribute, as in ``origin.channel``.
MAX_PATH_PARTS = 8

#: The largest integer that a store can look for.
_LARGEST_SOUGHT = 2**63 - 1

#: The name of an attribute, and each part of a path to one: the stores' filters take no other.
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


#: Half a character, which no encoding has.
_SURROGATE = re.compile("[\ud800-\udfff]")


class AttributeMap(ReadOnlyMap[str, Any]):
    """Hold attributes, to read only; values may be lists and mappings, so the hash is that of the names."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(frozenset(self._items))


def _attributes(given: Mapping[str, Any]) -> AttributeMap:
    for name in given:
        if _ATTRIBUTE_NAME.fullmatch(name) is None:
            raise ValueError("must have names of 1 to 64 letters, digits, hyphens and underscores, in ASCII")
    try:
        text = canonical_json(given)
        size = len(text.encode())
    except (UnicodeEncodeError, RecursionError):
        raise ValueError("must be valid Unicode text, and at most some hundred levels deep") from None
    _check_values(given, MOST_INTEGER)
    if size > MAX_ATTRIBUTE_BYTES:
        raise ValueError(f"take {size} bytes as JSON; the limit is {MAX_ATTRIBUTE_BYTES}")
    return AttributeMap(given)


def _check_values(given: Mapping[str, Any], largest: int) -> None:
    """Raise ValueError for what a store takes and cannot give back: the memory could not be read, nor be forgotten."""
    waiting: list[Any] = [given]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and "\0" in value:
            raise ValueError("must not contain the character NUL")
        elif isinstance(value, int) and not LEAST_INTEGER <= value <= largest:
            raise ValueError("must have whole numbers of at most 64 bits; write larger ones as text")


def _attribute_filter(given: Mapping[str, str | int | float | bool]) -> AttributeMap:
    for path in given:
        parts = path.split(".")
        if len(parts) > MAX_PATH_PARTS or any(_ATTRIBUTE_NAME.fullmatch(part) is None for part in parts):
            raise ValueError(f"must name attributes by paths such as origin.channel, of at most {MAX_PATH_PARTS} parts")
    _check_values(given, _LARGEST_SOUGHT)
    if any(isinstance(value, str) and _SURROGATE.search(value) for value in given.values()):
        raise ValueError("must be valid Unicode text")
    return AttributeMap(given)


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: names in order, no spaces."""
    plain = dict(value) if isinstance(value, Mapping) else value
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def attribute_at(attributes: Mapping[str, Any], path: str) -> object:
    """Return the value that a path leads to, None where it leads to none."""
    value: object = attributes
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def has_attributes(attributes: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether each path leads to its value, or to a list that holds it."""
    return all(_holds(attribute_at(attributes, path), value) for path, value in wanted.items())


def _holds(found: object, value: object) -> bool:
    return any(
        isinstance(each, bool) == isinstance(value, bool) and each == value
        for each in (found if isinstance(found, list) else [found])
    )


#: Free fields of the caller's: any JSON.
Attributes = Annotated[
    Mapping[str, JsonValue], AfterValidator(_attributes), PlainSerializer(dict, return_type=dict[str, Any])
]

#: Values that attributes must have, by the path to each.
AttributeFilter = Annotated[
    Mapping[str, StrictBool | StrictInt | StrictFloat | StrictStr],
    AfterValidator(_attribute_filter),
    PlainSerializer(dict, return_type=dict[str, Any]),
]

_NONE = AttributeMap({})


def no_attributes() -> AttributeMap:
    """Return the attributes of a memory that has none; a function, because a schema cannot write the mapping down."""
    return _NONE
