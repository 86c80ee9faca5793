"""Texts that honest and dishonest models make of sources, written before the rule that tells them apart.

Each third one of a list was not read while the rule was made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from support.repository import ROOT

_FOLDER = ROOT / "tests" / "fixtures" / "grounding"


@dataclass(frozen=True, kw_only=True)
class Sourced:
    """Sources, and what models write about them; texts, or terms of facts."""

    sources: tuple[str, ...]
    good: tuple[Any, ...]
    bad: tuple[Any, ...]


def _read(name: str) -> Any:
    return yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


#: Answers that are no text of a memory, whatever the sources are.
NEVER: tuple[str, ...] = tuple(text for texts in _read("never").values() for text in texts)

#: Of these, the ones that repeat the prompt by which memories are merged.
ECHOES: tuple[str, ...] = tuple(_read("never")["echoes"])

_SOURCES = ("said", "passage", "prompt", "output", "feedback")


def sourced(name: str) -> tuple[Sourced, ...]:
    """Return what a file has: notes, facts, rules, lessons or questions."""
    return tuple(
        Sourced(
            sources=tuple(each.get("sources", ())) or tuple(each[key] for key in _SOURCES if key in each),
            good=tuple(each["good"]),
            bad=tuple(each["bad"]),
        )
        for each in _read(name)
    )


def hostile(name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the sources and each text that may not be kept, then each of ``NEVER`` with sources in turn."""
    every = sourced(name)
    for given in every:
        yield from ((given.sources, text) for text in given.bad)
    for place, text in enumerate(NEVER):
        yield every[place % len(every)].sources, text


def honest(name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the sources and each text that is kept."""
    for given in sourced(name):
        yield from ((given.sources, text) for text in given.good)
