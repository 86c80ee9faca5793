"""The fields of an import record, made of what other systems call theirs."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memcore.errors import MemoryInputError

#: Characters of a field's name in free metadata that an attribute's name cannot have.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")

#: Longest name of an attribute, in characters.
_MAX_NAME_CHARS = 64

#: Numbers of seconds above this are milliseconds: as seconds they lie behind the year 5000.
_MOST_SECONDS = 1e11


def time_of(value: Any, *, field: str) -> datetime | None:
    """Return a time of another system: ISO text, a date, or seconds since 1970. UTC where it names no zone.

    Raises MemoryInputError when it is none of these.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value / 1_000 if abs(value) > _MOST_SECONDS else value, UTC)
        found = datetime.fromisoformat(str(value).strip())
    except (ValueError, OverflowError, OSError):
        raise MemoryInputError(field, "is not a time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def attributes_of(*given: Mapping[str, Any]) -> dict[str, Any]:
    """Return free metadata as attributes; empty values are left out, and a name's other characters become ``_``."""
    return {
        _NOT_IN_NAMES.sub("_", str(name))[:_MAX_NAME_CHARS] or "_": value
        for each in given
        for name, value in each.items()
        if value is not None and value not in ("", [], {})
    }


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def only(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return these fields of a mapping, where they are there."""
    return {name: given[name] for name in names if name in given}


def without(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return all fields of a mapping but these."""
    return {name: value for name, value in given.items() if name not in names}


def labels_of(value: Any) -> tuple[str, ...]:
    """Return tags that another system has as a list; what is no text is left out."""
    return tuple(tag for tag in value if isinstance(tag, str) and tag.strip()) if isinstance(value, list) else ()
