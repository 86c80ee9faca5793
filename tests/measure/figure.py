"""One figure of the repository beside its target."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What was measured, and the most that it may be; None where nobody set a target."""

    measure: str
    figure: float
    target: float | None = None

    @property
    def is_met(self) -> bool:
        return self.target is None or self.figure <= self.target


def show(figures: Iterable[Figure], *, as_json: bool) -> None:
    """Print the figures as a table, or as JSON; a star marks what misses its target."""
    figures = list(figures)
    if as_json:
        sys.stdout.write(json.dumps([{**asdict(each), "is_met": each.is_met} for each in figures], indent=1) + "\n")
        return
    width = max(len(each.measure) for each in figures)
    sys.stdout.write(f"{'measure':<{width}}  {'figure':>8}  {'at most':>8}\n")
    for each in figures:
        target = "" if each.target is None else f"{each.target:g}"
        sys.stdout.write(f"{each.measure:<{width}}  {each.figure:>8g}  {target:>8}{'' if each.is_met else ' *'}\n")
