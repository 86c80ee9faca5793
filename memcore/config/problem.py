"""One sentence for what is wrong with a configuration."""

from typing import TYPE_CHECKING

from memcore.config.keys import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


def problem(error: "ValidationError", known: list[str], *, name_of: "Callable[[str], str]" = str) -> str:
    """Name the first key that is wrong, its limit, and the nearest known key; never the value that was given.

    Args:
        error: what pydantic found.
        known: the keys that exist.
        name_of: what the reader calls a key; as it is by default.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return unknown(key, known, name_of=name_of)
    limit = _limit(first)
    # A sentence about two keys of one section names both in full.
    return limit if not key or limit.startswith(f"{key}.") else f"{name_of(key)}: {limit}"


def unknown(key: str, known: list[str], *, name_of: "Callable[[str], str]" = str) -> str:
    """Say that a key is unknown, and which one its writer most likely meant."""
    meant = nearest(key, known)
    return f"{name_of(key)}: unknown key; did you mean {meant}?" if meant else f"{name_of(key)}: unknown key"


def _limit(error: "ErrorDetails") -> str:
    if error["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        return "should be a mapping of keys; leave the key out to keep the defaults"
    return (
        error["msg"].removeprefix("Value error, ").replace("Input should", "should", 1).replace("Field req", "req", 1)
    )
