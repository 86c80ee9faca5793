"""Reads the arguments that a model or its client has written for a tool: meant well, and often in another form."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from pydantic import BaseModel

#: How clients write that an argument is left out.
_ABSENT = frozenset({"", "null"})

#: JSON types that clients also send as text, and what their text must be read as.
_FROM_TEXT: Mapping[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
}


def arguments_of(
    form: type[BaseModel], given: Mapping[str, Any], *, is_strict: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a call's arguments in the form that a tool takes, unchecked, and the names that were passed over.

    Null, and for optional arguments ``""`` and ``"null"``, are absent; one value is a list of one; lists, numbers,
    booleans and objects may be written as JSON text. Where a call may do harm (``is_strict``) nothing is guessed
    away: a text stays as it is, and unknown names stay, so that the form refuses them.
    """
    properties = _properties(form)
    arguments: dict[str, Any] = {}
    passed_over: list[str] = []
    for name, value in given.items():
        if name not in properties:
            if is_strict:
                arguments[name] = value
            else:
                passed_over.append(name)
            continue
        kind = _type(properties[name])
        may_be_absent = not form.model_fields[name].is_required() and not (is_strict and kind == "string")
        if value is None or (may_be_absent and isinstance(value, str) and value.strip().lower() in _ABSENT):
            continue
        arguments[name] = _in_form(kind, value)
    return arguments, tuple(passed_over)


@cache
def _properties(form: type[BaseModel]) -> Mapping[str, Mapping[str, Any]]:
    return cast("Mapping[str, Mapping[str, Any]]", form.model_json_schema().get("properties", {}))


def _type(schema: Mapping[str, Any]) -> str | None:
    """Return the only JSON type of an argument beside null, or None."""
    options = [each for each in schema.get("anyOf", (schema,)) if each.get("type") != "null"]
    return options[0].get("type") if len(options) == 1 else None


def _in_form(kind: str | None, value: Any) -> Any:
    if isinstance(value, str) and kind is not None and kind in _FROM_TEXT:
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            read = value
        # True is an int to Python.
        if isinstance(read, _FROM_TEXT[kind]) and (kind == "boolean" or not isinstance(read, bool)):
            return read
    return [value] if kind == "array" and not isinstance(value, list | tuple | Mapping) else value
