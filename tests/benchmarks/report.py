"""The report: a table for people, a file for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Target
from rich.console import Console
from rich.table import Table

#: Columns of the table when nobody's terminal says how many there are.
_WIDTH = 150


def show(figures: Sequence[Figure], targets: Sequence[Target], machine: dict[str, Any]) -> None:
    """Print the table, the targets and the machine."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    table = Table("", "median", "min - max", "unit", "CPU ms each", "note", box=None, pad_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    for group, rows in groupby(figures, key=lambda figure: figure.group):
        table.add_row(f"[bold]{group}[/bold]")
        for row in rows:
            spread = f"{_short(row.least)} - {_short(row.most)}" if len(row.samples) > 1 else ""
            cpu = "" if row.cpu_ms is None else f"{row.cpu_ms:.3f}"
            table.add_row(f"  {row.name}", _short(row.median), spread, row.unit, cpu, row.note)
    console.print(table)
    console.print()
    for target in targets:
        sign, verdict = ("<=" if target.at_most else ">="), ("met" if target.is_met else "MISSED")
        spread = f"{_short(min(target.values))} - {_short(max(target.values))}"
        console.print(f"{target.name}: {_short(target.value)} ({spread}; target {sign} {target.wanted:g}: {verdict})")
    console.print()
    console.print("; ".join(f"{name} {value}" for name, value in machine.items()))


def save(path: Path, figures: Sequence[Figure], targets: Sequence[Target], machine: dict[str, Any]) -> None:
    """Write everything, samples included, as JSON."""
    facts = {
        "machine": machine,
        "figures": [{**asdict(figure), "median": figure.median} for figure in figures],
        "targets": [{**asdict(target), "median": target.value, "met": target.is_met} for target in targets],
    }
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
