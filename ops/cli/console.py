"""Printing for people and for programs: a table, or with ``--json`` the same facts as JSON on standard output."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

#: The option that every reading command takes.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def say(sentence: str) -> None:
    """Print a sentence for people."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def show_json(value: Any) -> None:
    """Print a value as JSON; models and times in their JSON form."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False, indent=2) + "\n")


def show_rows(rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str], as_json: bool) -> None:
    """Print rows: all their fields as JSON, or these columns as a table."""
    rows = list(rows)
    if as_json:
        show_json(rows)
        return
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)


def show_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one thing's fields, a line each, or as a JSON object."""
    if as_json:
        show_json(dict(facts))
        return
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        say(f"{name:<{width}}  {_cell(value)}")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(f"{key}={_cell(each)}" for key, each in value.items()) or "-"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(_cell, value)) or "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
