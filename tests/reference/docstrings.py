"""Sentences for pages, read from docstrings: of a class's fields, and of an enumeration's members."""

import inspect
import re
from enum import Enum
from textwrap import dedent

_FIELD = re.compile(r"(\w+): (.*)")


def summary(subject: type) -> str:
    """Return the first sentence of a docstring."""
    return page_text(inspect.cleandoc(subject.__doc__ or "").split("\n\n")[0])


def field_sentences(subject: type) -> dict[str, str]:
    """Return the sentence of each field that the section ``Attributes`` of a docstring, or of a parent's, names."""
    found: dict[str, str] = {}
    for each in [parent for parent in reversed(subject.__mro__) if not parent.__module__.startswith("pydantic.")]:
        found |= _attributes(inspect.cleandoc(each.__dict__.get("__doc__") or ""))
    return {name: sentence(text) for name, text in found.items()}


def member_sentences(subject: type[Enum]) -> dict[str, str]:
    """Return the comment above each member of an enumeration, by the member's name."""
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in map(str.strip, inspect.getsource(subject).splitlines()):
        if line.startswith("#: "):
            comment.append(line.removeprefix("#: "))
        elif comment:
            found[line.partition(" = ")[0]] = page_text(" ".join(comment))
            comment = []
    return found


def sentence(text: str) -> str:
    """Return a clause of a docstring as a sentence of a page."""
    words = page_text(text)
    if words.startswith("no effect"):
        return f"**No effect**{words.removeprefix('no effect')}"
    return words[0].upper() + words[1:] if words else ""


def page_text(text: str) -> str:
    """Return a docstring's text in one line of Markdown, with YAML's word for None."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()).replace("``", "`"))


def _attributes(doc: str) -> dict[str, str]:
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)*)", doc, re.MULTILINE)
    found: dict[str, str] = {}
    name = ""
    for line in dedent(section[1]).splitlines() if section else ():
        if match := _FIELD.fullmatch(line):
            name, found[match[1]] = match[1], match[2]
        elif name:
            found[name] += f" {line.strip()}"
    return found
