"""A value of a JSON schema, made of a text."""

from typing import Any

#: How deep a schema that refers to itself is followed.
_DEPTH = 8


def filled(schema: dict[str, Any], text: str) -> Any:
    """Return the smallest value that the schema takes, with the text wherever it takes one.

    It knows what pydantic writes: objects, lists, texts, numbers, enums, constants, references and alternatives.
    """
    return _value(schema, text, schema.get("$defs", {}), _DEPTH)


def _value(schema: dict[str, Any], text: str, defs: dict[str, Any], depth: int) -> Any:  # noqa: PLR0911  # one a type
    if "$ref" in schema:
        return _value(defs[schema["$ref"].rpartition("/")[2]], text, defs, depth - 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return _value(options[0] if depth > 0 else options[-1], text, defs, depth - 1)
    match schema.get("type"):
        case "object":
            names = schema.get("properties", {}) if depth > 0 else schema.get("required", ())
            return {name: _value(schema["properties"][name], text, defs, depth - 1) for name in names}
        case "array":
            count = max(schema.get("minItems", 0), 1 if depth > 0 and schema.get("maxItems", 1) > 0 else 0)
            return [_value(schema.get("items", {}), text, defs, depth - 1) for _ in range(count)]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return text[: schema.get("maxLength", len(text))].ljust(schema.get("minLength", 0), "x")


def _number(schema: dict[str, Any]) -> Any:
    if "exclusiveMinimum" in schema:
        least = schema["exclusiveMinimum"]
        most = schema.get("exclusiveMaximum", schema.get("maximum", least + 2))
        return least + 1 if schema["type"] == "integer" else (least + most) / 2
    return schema.get("minimum", min(0, schema.get("maximum", 0)))
