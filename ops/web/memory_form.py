"""The form of a memory: its fields as they are shown, what of them was typed otherwise, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from memcore.errors import (
    MemoryConflictError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
    MemoryNotFoundError,
    MemoryRefusedError,
)
from memcore.memories import OWN_TAGS
from memcore.models.memory import MemoryEntry
from memcore.models.memory_changes import UpdateFields
from ops.http.problems import problem_of
from ops.web.text_diff import DiffRow

#: What a form is refused for, and shown again with what was typed.
REFUSED = (MemoryInputError, MemoryConflictError, MemoryNotFoundError, MemoryRefusedError)

#: The fields of a memory that its form has.
FIELDS = ("content", "tags", "valid_from", "valid_until")

#: The other fields of these forms: what is wrong with one of them stands beside it.
_OTHERS = ("category", "reason", "to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A form that was refused.

    Attributes:
        fields: what was typed.
        wrong: what is wrong, by field; under an empty name what no field is to blame for.
        rows: the text that is there now beside the typed one, where it was changed meanwhile.
    """

    fields: Mapping[str, str]
    wrong: Mapping[str, str]
    rows: tuple[DiffRow, ...] = ()


def changes(entry: MemoryEntry, typed: Mapping[str, str]) -> UpdateFields:
    """Return the fields that were typed otherwise than a memory has them. Raises MemoryInputError."""
    was, changed = fields_of(entry), UpdateFields()
    differing = {name: value for name, value in typed.items() if value != lines(was[name])}
    if "content" in differing:
        changed["content"] = differing["content"]
    if "tags" in differing:
        changed["tags"] = tags_of(differing["tags"])
    if "valid_from" in differing:
        changed["valid_from"] = _time("valid_from", differing["valid_from"])
    if "valid_until" in differing:
        changed["valid_until"] = _time("valid_until", differing["valid_until"])
    return changed


def fields_of(entry: MemoryEntry) -> dict[str, str]:
    """Return the fields of the form for a memory: tags one a line, times in UTC, to the minute."""
    return {
        "content": entry.content,
        "tags": "\n".join(each for each in entry.metadata.tags if each not in OWN_TAGS),
        "valid_from": _minute(entry.valid_from),
        "valid_until": _minute(entry.valid_until),
    }


def wrong(error: MemoryError) -> dict[str, str]:
    """Return what is wrong by the field of the form beside which it stands; under an empty name at the top."""
    if not isinstance(error, MemoryInputError):
        return {"": problem_of(error).detail}
    field = error.field.removeprefix("metadata.").partition(".")[0]
    return {field: error.problem} if field in {*FIELDS, *_OTHERS} else {"": problem_of(error).detail}


def lines(text: str) -> str:
    """Return a text with one kind of line break: a browser sends each as two characters, whatever the text had."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def tags_of(text: str) -> tuple[str, ...]:
    """Return the tags of a field, one a line."""
    return tuple(each.strip() for each in text.split("\n") if each.strip())


def _minute(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat()[:16]


def _time(name: str, text: str) -> datetime | None:
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise MemoryInputError(name, "must be a time, such as 2027-01-31T12:00") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
