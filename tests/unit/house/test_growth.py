"""No expression grows with the square of a text: 64 KiB of the worst text would hold a worker for minutes."""

import importlib
import pkgutil
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from memcore.approvals import changes

PACKAGES = ("memcore", "ops", "scheduler", "tasks", "workers")

#: Not imported: they run when they are, or need what only their program has.
_PROGRAMS = re.compile(r"__main__|\.migrations\.env")

#: Characters of the smaller text and of the larger one, which is 8 times as long.
SMALL, LARGE = 256, 2_048

#: CPU seconds of the larger text that are worth a second look: a step of an expression takes some 5 ns.
SUSPECT_SECONDS = 0.0005

#: Growth between the two sizes: a line's is 8, a square's 64.
MOST_GROWTH = 24

#: Times that two texts are measured, and once more where they seem to grow: a busy machine is slow for a while.
TRIES, MORE_TRIES = 3, 60

#: What texts are made of, beside what the expression itself names.
PLAIN = ("a", " ", "1", "\n")


def _modules() -> Iterator[Any]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not _PROGRAMS.search(found.name):
                yield importlib.import_module(found.name)


def _patterns(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _patterns(each)
    elif isinstance(value, dict):
        yield from _patterns(tuple(value.values()))


def _ways(module: Any, name: str) -> frozenset[str]:
    """How the module asks the expression; in every way where that cannot be seen."""
    used = re.findall(rf"\b{name}\.(match|fullmatch|search|sub|split|findall|finditer)\b", _source(module))
    return frozenset(used) or frozenset({"search"})


def _source(module: Any) -> str:
    return Path(module.__file__).read_text()


def _every_pattern() -> dict[re.Pattern[str], tuple[str, frozenset[str]]]:
    found: dict[re.Pattern[str], tuple[str, frozenset[str]]] = {}
    for module in _modules():
        for name, value in vars(module).items():
            for pattern in _patterns(value):
                where, ways = found.get(pattern, (f"{module.__name__}.{name}", frozenset[str]()))
                found[pattern] = (where, ways | (_ways(module, name) if value is pattern else {"search"}))
    return found


def _letters(tree: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """Yield a letter for each part of an expression."""
    for code, value in tree:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            yield chr(value)
        elif code is codes.RANGE:
            yield chr(value[0])
        elif code in (codes.IN, codes.ATOMIC_GROUP):
            yield from _letters(value)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from _letters(value[2])
        elif code in (codes.SUBPATTERN, codes.ASSERT, codes.ASSERT_NOT):
            yield from _letters(value[-1])
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _letters(branch)


def _units(pattern: re.Pattern[str]) -> list[str]:
    """What is repeated: letters of the expression, and every two of them."""
    letters = list(dict.fromkeys(_letters(parser.parse(pattern.pattern, pattern.flags))))
    few = list(dict.fromkeys((*PLAIN, *letters[:: max(1, len(letters) // 6)])))
    return [*few, *map("".join, permutations(few, 2))]


def _seconds(pattern: re.Pattern[str], ways: frozenset[str], text: str) -> float:
    began = thread_time()
    if ways - {"match", "fullmatch"}:
        for _ in pattern.finditer(text):
            pass
    if "match" in ways:
        pattern.match(text)
    if "fullmatch" in ways:
        pattern.fullmatch(text)
    return thread_time() - began


def _text(unit: str, size: int) -> str:
    """A text of that size that ends in what nothing expects."""
    return unit * (size // len(unit)) + "\x00"


def worst_growth(pattern: re.Pattern[str], ways: frozenset[str]) -> tuple[float, str]:
    """Return how much longer the larger of two texts takes at most, and what it repeats; 0 where all are quick."""
    worst = (0.0, "")
    for unit in _units(pattern):
        if _seconds(pattern, ways, _text(unit, LARGE)) > SUSPECT_SECONDS:
            growth = _growth(pattern, ways, unit, tries=TRIES)
            if growth > MOST_GROWTH:
                growth = _growth(pattern, ways, unit, tries=MORE_TRIES)
            worst = max(worst, (growth, unit))
            if growth > MOST_GROWTH:
                break
    return worst


def _growth(pattern: re.Pattern[str], ways: frozenset[str], unit: str, *, tries: int) -> float:
    # In turn: what slows the machine down slows down both.
    tried = [[_seconds(pattern, ways, _text(unit, size)) for size in (SMALL, LARGE)] for _ in range(tries)]
    small, large = map(min, zip(*tried, strict=True))
    return large / small if large > SUSPECT_SECONDS else 0.0


@pytest.mark.parametrize("expression", [r"a+b", r"\{.*\}x", r"\s+x"])
def test_an_expression_that_grows_with_the_square_is_found(expression: str) -> None:
    growth, _ = worst_growth(re.compile(expression, re.DOTALL), frozenset({"search"}))
    assert growth > MOST_GROWTH


def test_no_expression_grows_with_the_square_of_a_text() -> None:
    grown = {}
    for pattern, (name, ways) in _every_pattern().items():
        growth, unit = worst_growth(pattern, ways)
        if growth > MOST_GROWTH:
            grown[name] = (round(growth), unit)
    assert not grown


def test_a_difference_of_texts_does_not_grow_with_the_square() -> None:
    lines = [str(each) for each in range(1 << 14)]
    began = thread_time()
    for old, new in ((lines, lines[::-1]), (["x"] * (1 << 14), ["x", "y"] * (1 << 13)), (lines, lines[1:] + lines[:1])):
        changes(old, new)
    assert thread_time() - began < 5  # quiet: 0.1 s; with difflib, hours
