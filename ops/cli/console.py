"""Printing for people and for programs: a table, or with ``--json`` the same facts as JSON on standard output.

Every command prints through this file alone: texts, ids and names are others', and nothing in them may act on a
terminal.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from memcore.frozen import escaped, escaped_json

#: The option that every reading command takes.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

#: What a text may hold beside what is seen: it lays out lines.
KEPT = "\n\t"

#: Characters of a line where the output is no terminal.
PLAIN_WIDTH = 200


def say(sentence: str) -> None:
    """Print a sentence for people."""
    sys.stdout.write(f"{escaped(sentence, keep=KEPT)}\n")
    sys.stdout.flush()


def warn(sentence: str) -> None:
    """Print a sentence for people to standard error, beside what the command answers."""
    sys.stderr.write(f"{escaped(sentence, keep=KEPT)}\n")
    sys.stderr.flush()


def plain(text: str, style: str = "") -> Text:
    """Return a text for rich, as it may be shown."""
    return Text(escaped(text, keep=KEPT), style=style)


def draw(*parts: Text | Table | Tree, soft_wrap: bool = False) -> None:
    """Print what is made of ``plain`` texts; lines of 200 characters where the output is no terminal."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    console = Console(width=width, markup=False, highlight=False, soft_wrap=soft_wrap)
    for part in parts:
        console.print(part)


def show_json(value: Any) -> None:
    """Print a value as JSON; models and times in their JSON form."""
    sys.stdout.write(escaped_json(json.dumps(value, default=_json, ensure_ascii=False, indent=2)) + "\n")


def show_rows(rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str], as_json: bool) -> None:
    """Print rows: all their fields as JSON, or these columns as a table."""
    rows = list(rows)
    if as_json:
        show_json(rows)
        return
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(plain(_cell(row.get(column))) for column in columns))
    draw(table)


def show_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one thing's fields, a line each, or as a JSON object."""
    if as_json:
        show_json(dict(facts))
        return
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        say(f"{name:<{width}}  {_cell(value)}")


def _cell(value: Any) -> str:
    # One line: a line break in a name must not look like another fact.
    return escaped(_shown(value))


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(f"{key}={_shown(each)}" for key, each in value.items()) or "-"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(_shown, value)) or "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
