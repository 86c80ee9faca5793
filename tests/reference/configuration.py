"""docs/reference/configuration.md: every key of a policy file and every variable, read off their models."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from memcore.config.errors import section_of
from memcore.config.policy import Policy
from memcore.config.settings import PREFIX, Settings
from memcore.models.base import Frozen
from reference.docstrings import field_sentences, sentence, summary
from reference.keys import ADDED
from reference.page import Page, table
from reference.types import field_types


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the policy file with its keys.

    Attributes:
        name: dotted; empty for the file itself.
    """

    name: str
    model: type[Frozen]


def sections(model: type[Frozen] = Policy, name: str = "") -> Iterator[Section]:
    """Yield every section, outer ones first."""
    yield Section(name=name, model=model)
    for field_name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is not None:
            yield from sections(inner, f"{name}.{field_name}" if name else field_name)


@cache
def reference() -> str:
    """Return the keys, section by section, then those that memtend adds, then the variables."""
    parts = ["## Keys", *(_keys_of(section) for section in sections() if section.name)]
    parts += ["## Keys that memtend adds", _added(), "## Settings: where things run", _variables()]
    return "\n\n".join(parts)


def _keys_of(section: Section) -> str:
    sentences, types = field_sentences(section.model), field_types(section.model)
    rows = []
    for name, field in section.model.model_fields.items():
        if section_of(field) is not None and field.default is not None:
            continue
        kind, limits = types[name]
        if section_of(field) is not None:
            kind = "section or null"
        text = sentences[name] + ("" if sentences[name].endswith(".") else ".")
        rows.append((f"`{section.name}.{name}`", kind, shown(field.default), limits, text))
    head = f"### `{section.name}`\n\n{summary(section.model)}"
    return f"{head}\n\n{table(('key', 'type', 'default', 'limits', 'what it does'), rows)}" if rows else head


def _added() -> str:
    intro = (
        "The reference configuration has none of these keys. A test changes every key and looks for a difference; "
        "a key that makes none says **No effect** above."
    )
    return f"{intro}\n\n{table(('key', 'why memtend has it'), list(_added_rows()))}"


def _added_rows() -> Iterator[tuple[str, str]]:
    for section in sections():
        for name, field in section.model.model_fields.items():
            if reason := ADDED.get(f"{section.name}.{name}"):
                inside = ".*" if section_of(field) is not None else ""
                yield f"`{section.name}.{name}{inside}`", f"{sentence(reason)}."


def _variables() -> str:
    sentences, types = field_sentences(Settings), field_types(Settings)
    variables = {name: f"`{PREFIX}{name.upper()}`" for name in Settings.model_fields}
    rows = []
    for name, field in Settings.model_fields.items():
        kind, limits = types[name]
        if field.default_factory is not None:
            # Each factory takes the value of another variable; given their names, it says whose.
            default = "that of " + field.get_default(call_default_factory=True, validated_data=variables)
        elif name == "home":
            default = "`~/.memtend`"
        else:
            default = "required" if field.is_required() else shown(field.default)
        text = sentences[name] + ("" if sentences[name].endswith(".") else ".")
        rows.append((variables[name], kind.removesuffix(" or null"), default, limits, text))
    return table(("variable", "type", "default", "limits", "what it says"), rows)


def shown(default: Any) -> str:
    """Return a default as YAML has it."""
    if isinstance(default, StrEnum):
        return f"`{default.value}`"
    if isinstance(default, str):
        return f"`{default}`"
    if isinstance(default, tuple):
        return f"`[{', '.join(str(each) for each in default)}]`"
    if hasattr(default, "items"):
        return "`{}`" if not default else "see [Write rules](#write-rules)"
    return f"`{json.dumps(sorted(default) if isinstance(default, frozenset) else default)}`"


PAGE = Page(name="configuration.md", generate=reference)
