"""mem0's filters: AND, OR and NOT over fields with operators, as conditions on a memory in mem0's form."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from memcore.errors import MemoryInputError
from memcore.models.attributes import canonical_json

#: How deep filters nest, and how many conditions they have, at most.
MAX_DEPTH, MAX_CONDITIONS = 8, 128

#: The wildcard: any value but none.
ANYTHING = "*"

#: Fields of a memory itself; every other name is a field of its metadata.
FIELDS = frozenset(
    {
        *("id", "memory", "user_id", "agent_id", "app_id", "run_id", "actor_id", "role", "hash"),
        *("categories", "created_at", "updated_at", "expiration_date", "metadata"),
    }
)

#: Other names of fields; the npm client's callers write theirs in camel case.
_ALIASES = {
    "timestamp": "created_at",
    "keywords": "memory",
    "memory_ids": "id",
    "category": "categories",
    **{re.sub("_([a-z])", lambda found: found[1].upper(), name): name for name in FIELDS},
}

_TIMES = frozenset({"created_at", "updated_at", "expiration_date"})

#: A memory in mem0's form.
Record = Mapping[str, Any]


#: What a memory meets or not.
Condition: TypeAlias = "Every | Either | Neither | Comparison"


@dataclass(frozen=True, slots=True)
class Every:
    """All of these conditions."""

    parts: tuple[Condition, ...]

    def matches(self, record: Record) -> bool:
        """Return whether a memory meets it."""
        return all(part.matches(record) for part in self.parts)

    def named(self, field: str) -> frozenset[str] | None:
        """Return the only values that a field of identity may have: the wildcard for all, None for nothing said."""
        found: frozenset[str] | None = None
        for names in (part.named(field) for part in self.parts):
            if names is None:
                continue
            if found is None or ANYTHING in found:
                found = names
            elif ANYTHING not in names:
                found &= names
        return found


@dataclass(frozen=True, slots=True)
class Either:
    """One of these conditions at least."""

    parts: tuple[Condition, ...]

    def matches(self, record: Record) -> bool:
        """Return whether a memory meets it."""
        return any(part.matches(record) for part in self.parts)

    def named(self, field: str) -> frozenset[str] | None:
        """Return the only values that the field may have, as Every.named does."""
        found = [part.named(field) for part in self.parts]
        known = [names for names in found if names is not None]
        if not known:
            return None
        # A part that says nothing of it may be met by any value that a call without it means.
        return frozenset().union(*known, *([{UNNAMED}] if len(known) < len(found) else []))


@dataclass(frozen=True, slots=True)
class Neither:
    """None of these conditions."""

    parts: tuple[Condition, ...]

    def matches(self, record: Record) -> bool:
        """Return whether a memory meets it."""
        return not any(part.matches(record) for part in self.parts)

    def named(self, field: str) -> frozenset[str] | None:  # noqa: ARG002  # as the others have it
        """Return the only values that the field may have, as Every.named does."""
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field, compared with a value."""

    field: str
    operator: str
    value: Any

    def matches(self, record: Record) -> bool:
        """Return whether a memory meets it; of a field with several values, whether one of them does."""
        held = record.get(self.field) if self.field in FIELDS else _within(record.get("metadata") or {}, self.field)
        if self.field in _TIMES:
            held = None if held is None else _time(self.field, held)
        if isinstance(held, (list, tuple)):
            return _of_list(self.operator, held, self.value)
        return _OPERATORS[self.operator](held, self.value)

    def named(self, field: str) -> frozenset[str] | None:
        """Return the only values that the field may have, as Every.named does."""
        if self.field != field:
            return None
        if self.operator in {"eq", "in"}:
            return frozenset(self.value if self.operator == "in" else (self.value,))
        return frozenset({ANYTHING})


def _within(metadata: Mapping[str, Any], path: str) -> Any:
    """Return a field of metadata by its name, with ``metadata.`` before it or not, or by a path with dots."""
    for named in (path, path.removeprefix("metadata.")):
        if named in metadata:
            return metadata[named]
    held: Any = metadata
    for name in path.removeprefix("metadata.").split("."):
        held = held.get(name) if isinstance(held, Mapping) else None
    return held


#: Stands, in the values that a field may have, for calls that do not name it.
UNNAMED = ""


def parsed(filters: Mapping[str, Any] | None, *, field: str = "filters") -> Every:
    """Return filters as a condition; no filters are met by everything. Raises MemoryInputError."""
    if filters is None:
        return Every(())
    try:
        canonical_json(filters).encode()
    except (TypeError, ValueError, RecursionError):
        # What Python writes may hold more than JSON can, and both half a character.
        raise MemoryInputError(field, "must be JSON of valid Unicode text and finite numbers") from None
    count = _Counter(field)
    return Every(tuple(_parts(filters, field, count, depth=0)))


def equal_metadata(condition: Every) -> dict[str, str | int | float | bool]:
    """Return the fields of metadata that all matches have, with their values, for a store that can narrow by them."""
    found: dict[str, str | int | float | bool] = {}
    for part in condition.parts:
        if isinstance(part, Every):
            found.update(equal_metadata(part))
        elif isinstance(part, Comparison) and part.operator == "eq" and part.field not in FIELDS:
            if isinstance(part.value, (str, int, float, bool)):
                found[part.field] = part.value
        elif isinstance(part, Comparison) and part.operator == "contains" and part.field == "metadata":
            plain = {key: value for key, value in part.value.items() if isinstance(value, (str, int, float, bool))}
            found.update(plain)
    return found


def equals(**values: Any) -> list[Condition]:
    """Return the conditions that fields have these values; None asks for nothing, the wildcard for any value."""
    return [
        Comparison(field, "present", None) if value == ANYTHING else Comparison(field, "eq", value)
        for field, value in values.items()
        if value is not None
    ]


class _Counter:
    """Refuses filters with too many conditions."""

    def __init__(self, field: str) -> None:
        self._field, self._count = field, 0

    def more(self) -> None:
        self._count += 1
        if self._count > MAX_CONDITIONS:
            raise MemoryInputError(self._field, f"has more than {MAX_CONDITIONS} conditions")


def _parts(filters: Any, field: str, count: _Counter, *, depth: int) -> Iterable[Condition]:
    if not isinstance(filters, Mapping):
        raise MemoryInputError(field, "must be an object of fields and conditions")
    if depth > MAX_DEPTH:
        raise MemoryInputError(field, f"nests deeper than {MAX_DEPTH}")
    for name, value in filters.items():
        if name in _JOINED:
            within = value if isinstance(value, list) else [value]
            parts = tuple(
                Every(tuple(_parts(each, f"{field}.{name}.{place}", count, depth=depth + 1)))
                for place, each in enumerate(within)
            )
            yield _JOINED[name](parts)
        else:
            yield from _comparisons(_ALIASES.get(name, str(name)), value, f"{field}.{name}", count)


_JOINED: dict[str, Callable[[tuple[Condition, ...]], Condition]] = {"AND": Every, "OR": Either, "NOT": Neither}


def _comparisons(name: str, value: Any, place: str, count: _Counter) -> Iterable[Condition]:
    count.more()
    if isinstance(value, Mapping) and not value.keys() <= _OPERATORS.keys():
        if name != "metadata":
            unknown = ", ".join(sorted(map(str, value.keys() - _OPERATORS.keys())))
            raise MemoryInputError(place, f"has unknown operators ({unknown}); there are {', '.join(_OPERATORS)}")
        value = {"contains": value}
    operators = value if isinstance(value, Mapping) else {"in" if isinstance(value, list) else "eq": value}
    for operator, operand in operators.items():
        if operator == "eq" and operand == ANYTHING:
            yield Comparison(name, "present", None)
        else:
            yield Comparison(name, operator, _operand(name, operator, operand, f"{place}.{operator}"))


def _operand(name: str, operator: str, operand: Any, place: str) -> Any:
    if operator in {"in", "nin"}:
        if not isinstance(operand, list):
            raise MemoryInputError(place, "must be a list")
        return tuple(_operand(name, "eq", each, place) for each in operand)
    if name in _TIMES:
        return _time(place, operand)
    if name in FIELDS - {"metadata"} and operand is not None and not isinstance(operand, str):
        raise MemoryInputError(place, "must be a text")
    if name == "metadata" and not isinstance(operand, Mapping):
        raise MemoryInputError(place, "must be an object")
    return operand


def _time(place: str, value: Any) -> datetime:
    try:
        if isinstance(value, datetime):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        at = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        raise MemoryInputError(place, "must be a date, a time in ISO 8601, or seconds since 1970") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _of_list(operator: str, held: Sequence[Any], value: Any) -> bool:
    """Return whether a field with several values meets a condition: one of them does; for ne and nin, all do."""
    if operator in {"ne", "nin"}:
        return all(_OPERATORS[operator](each, value) for each in held)
    return any(_OPERATORS[operator](each, value) for each in held)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(held: Any, value: Any) -> bool:
        try:
            return held is not None and not isinstance(held, bool) and compare(held, value)
        except TypeError:
            # A text and a number have no order.
            return False

    return ordered


def _contains(held: Any, value: Any) -> bool:
    if isinstance(held, Mapping):
        return isinstance(value, Mapping) and all(key in held and held[key] == value[key] for key in value)
    return isinstance(held, str) and str(value) in held


def _contains_folded(held: Any, value: Any) -> bool:
    return isinstance(held, str) and str(value).casefold() in held.casefold()


def _same(held: Any, value: Any) -> bool:
    # True is no 1 here, as it is none in JSON.
    return bool(held == value) and isinstance(held, bool) == isinstance(value, bool)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _same,
    "ne": lambda held, value: not _same(held, value),
    "in": lambda held, value: any(_same(held, each) for each in value),
    "nin": lambda held, value: not any(_same(held, each) for each in value),
    "gt": _ordered(lambda held, value: held > value),
    "gte": _ordered(lambda held, value: held >= value),
    "lt": _ordered(lambda held, value: held < value),
    "lte": _ordered(lambda held, value: held <= value),
    "contains": _contains,
    "icontains": _contains_folded,
    "present": lambda held, _value: held is not None,
}


def from_query(text: str, *, field: str) -> Mapping[str, Any]:
    """Return filters that stand in a query string: as JSON, or as Python writes a mapping (what its client sends)."""
    import ast  # noqa: PLC0415  # for this alone

    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, Mapping):
            return found
    raise MemoryInputError(field, "must be an object as JSON")
