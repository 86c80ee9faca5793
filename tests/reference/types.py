"""The types and limits of fields in words, read from a model's JSON schema."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

_PLAIN = {
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "null": "null",
    "number": "number",
    "string": "text",
}

_FORMATS = {"path": "path", "date-time": "time"}

#: Most fields of an object that a cell names; a larger one is named itself.
_SHOWN = 4


class _Quiet(GenerateJsonSchema):
    def emit_warning(self, kind: object, detail: str) -> None:
        """Say nothing of defaults without JSON, such as a read-only map: they are read off the fields."""


def field_types(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """Return the type and the limits of each field, in words; the limits are empty where there are none."""
    schema = model.model_json_schema(schema_generator=_Quiet)
    known = schema.get("$defs", {})
    return {
        name: (_type(field, known), ", ".join(_limits(field, known))) for name, field in schema["properties"].items()
    }


def either(words: list[str]) -> str:
    """Return words as a choice: `a`, `b` or `c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _type(field: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return _type(known[field["$ref"].rpartition("/")[2]], known)
    if "anyOf" in field:
        words = [_type(option, known) for option in field["anyOf"]]
        # A closed list beside any text: names that other packages register.
        return either(["another name" if word == "text" and words[0][0] == "`" else word for word in words])
    if values := field.get("enum", [field["const"]] if "const" in field else []):
        return either([f"`{value}`".replace("True", "true") for value in values])
    if field.get("format") in _FORMATS:
        return _FORMATS[field["format"]]
    kind = field.get("type", "string")
    return _PLAIN[kind] if kind in _PLAIN else _collection(field, known)


def _collection(field: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {_type(field['items'], known)}".replace("list of text", "list of texts")
    names = list(field.get("properties", ()))
    if names:
        return f"({', '.join(f'`{name}`' for name in names)})" if len(names) <= _SHOWN else f"`{field['title']}`"
    values = field.get("additionalProperties", True)
    if values is True:
        return "JSON object"
    return f"table: {_type(field.get('propertyNames', {}), known)} to {_type(values, known)}"


def _limits(field: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    for option in field.get("anyOf", ()):
        yield from _limits(option, known)
    match field:
        case {"minimum": least, "maximum": most}:
            yield f"{_figure(least)} to {_figure(most)}"
        case {"minimum": least, "exclusiveMaximum": most}:
            yield f"{_figure(least)} or more, below {_figure(most)}"
        case {"minimum": least}:
            yield f"{_figure(least)} or more"
        case {"exclusiveMinimum": least, "maximum": most}:
            yield f"above {_figure(least)}, at most {_figure(most)}"
        case {"exclusiveMinimum": least, "exclusiveMaximum": most}:
            yield f"above {_figure(least)}, below {_figure(most)}"
        case {"maxLength": most}:
            yield f"at most {most:,} characters"
        case {"minItems": least, "maxItems": most}:
            yield f"{least} to {most:,} entries"
        case {"minItems": 1}:
            yield "at least one"
        case _:
            return


def _figure(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"
