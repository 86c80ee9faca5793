"""The keys of the policy file, and one-sentence messages about wrong ones."""

from collections.abc import Iterator
from difflib import get_close_matches
from types import UnionType
from typing import TYPE_CHECKING, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from memcore.models.base import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


def key_names(model: type[Frozen], under: str = "") -> Iterator[str]:
    """Yield every key of a model and of the models in it, dotted, sections before what they hold."""
    for name, field in model.model_fields.items():
        yield under + name
        if section := section_of(field):
            yield from key_names(section, f"{under}{name}.")


def nearest(name: str, known: list[str]) -> str | None:
    """Return the known key that the writer of an unknown one most likely meant, or None.

    A key written in the wrong section is looked for first, then a misspelt one in its own section, then anywhere.
    """
    parent, _, last = name.rpartition(".")
    moved = [key for key in known if key.rpartition(".")[2] == last]
    if len(moved) == 1:
        return moved[0]
    siblings = {key.rpartition(".")[2]: key for key in known if key.rpartition(".")[0] == parent}
    others = {key: key for key in known if not name.startswith(f"{key}.")}
    for candidates, word, cutoff in ((siblings, last, 0.7), (others, name, 0.85)):
        for match in get_close_matches(word, candidates, n=1, cutoff=cutoff):
            return candidates[match]
    return None


def section_of(field: FieldInfo) -> type[Frozen] | None:
    """Return the model of a key that holds keys itself, also where it may be null."""
    annotation = field.annotation
    options = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return next((option for option in options if isinstance(option, type) and issubclass(option, Frozen)), None)


def validation_message(error: "ValidationError", known: list[str], *, name_of: "Callable[[str], str]" = str) -> str:
    """Name the first key that is wrong, its limit, and the nearest known key; never the value that was given.

    ``name_of`` returns what the reader calls a key.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        meant = nearest(key, known)
        return f"{name_of(key)}: unknown key" + (f"; did you mean {meant}?" if meant else "")
    limit = _limit(first)
    # A sentence about two keys of one section names both in full.
    return limit if not key or limit.startswith(f"{key}.") else f"{name_of(key)}: {limit}"


def _limit(error: "ErrorDetails") -> str:
    if error["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        return "should be a mapping of keys; leave the key out to keep the defaults"
    return (
        error["msg"].removeprefix("Value error, ").replace("Input should", "should", 1).replace("Field req", "req", 1)
    )
