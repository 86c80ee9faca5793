"""Markdown around texts that others wrote: they are shown, and never become markup, links or images."""

import re
import sys
from collections.abc import Mapping

import yaml

#: What Markdown and its dialects give a meaning inside a line.
_MEANT = re.compile(r"[\\`*_{}\[\]<>&!|~#$^=%]")

#: What gives the beginning of a line a meaning.
_BEGINNING = re.compile(r"^(\d{0,9})([-+.)])")

#: Characters that move the cursor or ring the bell.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_BACKTICKS = re.compile("`+")


def plain(text: str) -> str:
    """Return the text as one line in which nothing means anything to Markdown."""
    line = _CONTROL.sub("", " ".join(text.split()))
    return _BEGINNING.sub(r"\1\\\2", _MEANT.sub(r"\\\g<0>", line))


def fenced(text: str) -> str:
    """Return the text as a block of code, exactly as it is, whatever runs of backticks are in it."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def front_matter(fields: Mapping[str, str | int]) -> str:
    """Return the fields as YAML between two lines of dashes, one line each, whatever the values contain."""
    return "\n".join(["---", *(f"{name}: {_scalar(value)}" for name, value in fields.items()), "---"])


def file_bytes(*blocks: str) -> bytes:
    """Return the blocks as a file, an empty line between them."""
    return ("\n\n".join(blocks) + "\n").encode("utf-8", "backslashreplace")


def _scalar(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    # Always quoted: no reader takes "no", "1e3" or "2026-03-01" for anything but text.
    return yaml.dump(value, default_style='"', allow_unicode=True, width=sys.maxsize).rstrip("\n")
