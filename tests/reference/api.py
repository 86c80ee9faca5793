"""docs/reference/api.md: the public names of ``memcore``, grouped; their docstrings are filled in by ``make docs``."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import memcore
from reference.page import Page

#: Sections in order, each with the packages of memcore whose names it holds; the last one takes the rest.
SECTIONS = (
    ("Memory", ("memory", "memory_tests")),
    ("The client of the queue", ("client",)),
    ("Errors", ("errors",)),
    ("Configuration", ("config",)),
    ("Backends", ("backends",)),
    ("Embedders and language models", ("embedding", "llm")),
    ("Retrieval", ("retrieval",)),
    ("Maintenance", ("maintenance",)),
    ("Learning", ("distillation", "experience", "procedural", "skills", "finetune")),
    ("Organisation and approvals", ("org", "organization", "approvals", "service")),
    ("Models", ()),
)


def reference() -> str:
    """Return a section for each group of names, with one directive a name."""
    # A class, then its alias for event loops.
    order = sorted(memcore.__all__, key=lambda name: (name.removeprefix("Async"), name.startswith("Async")))
    named = sorted(((_place(name), name) for name in order), key=lambda each: each[0])
    parts = []
    for place, group in groupby(named, key=lambda each: each[0]):
        parts.append(f"## {SECTIONS[place][0]}\n\n{_directives(name for _, name in group)}")
    return "\n\n".join(parts)


def _place(name: str) -> int:
    """Return the number of the section of a name, by the package that defines it."""
    if isinstance(_found(name), type) and issubclass(_found(name), BaseException):
        return 2
    package = str(getattr(_found(name), "__module__", "memcore")).split(".")[1:2]
    homes = (number for number, (_, packages) in enumerate(SECTIONS) if set(package) & set(packages))
    return next(homes, len(SECTIONS) - 1)


def _directives(names: Iterable[str]) -> str:
    lines = []
    for name in names:
        own = getattr(_found(name), "__name__", name)
        alias = own != name and own in memcore.__all__
        lines.append(f"`{name}` is another name of `{own}`." if alias else f"::: memcore.{name}")
    return "\n\n".join(lines)


def _found(name: str) -> Any:
    return getattr(memcore, name)


PAGE = Page(name="api.md", generate=reference)
