"""Texts whose density is known from where they come from, and the half of them on which nothing is tuned.

``fixtures/density`` holds what was written for it, and copies of pieces of this repository's own files. A text's label
follows from its origin alone: source files, logs, traces, JSON, YAML, configuration, tables and shell transcripts are
dense; chat, narrative, minutes, letters, diaries, notes and what agents tell are sparse.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FOLDER = Path(__file__).parents[1] / "fixtures" / "density"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One text.

    Attributes:
        kind: where such a text comes from.
        language: of its prose, or of the comments and strings in it.
        trap: what makes it look like the other side; empty when nothing does.
        held_out: whether it is kept from tuning.
    """

    text: str
    density: str
    kind: str
    language: str
    trap: str = ""
    held_out: bool


@cache
def samples() -> tuple[Sample, ...]:
    """Return all texts; in each group the second, fourth, sixth and so on are held out."""
    return tuple(
        Sample(**group, text=text, held_out=index % 2 == 1)
        for group, texts in _groups()
        for index, text in enumerate(texts)
    )


def _groups() -> Iterator[tuple[dict[str, str], list[str]]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8")):
            yield {key: value for key, value in group.items() if key != "texts"}, group["texts"]
