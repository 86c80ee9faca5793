"""Print a table of docs/benchmarks: how many held-out texts are classified right, by kind and by language.

Run it with ``PYTHONPATH=tests .venv/bin/python tests/support/density_table.py``.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from memcore.maintenance.consolidation.density import DEFAULT_DENSE_THRESHOLD, DensityClassifier
from support.density_corpus import Sample, samples

_ANY = re.IGNORECASE | re.MULTILINE

#: The reference's matches as its words describe them: weight, matches counted for each word or line, factor, pattern.
#: Its fifth signal is computed below.
_AS_DESCRIBED = (
    (0.30, "word", 5, re.compile(
        r"def \w+\(|class \w+|import \w+|from \w+ import|return |if .+:|for \w+ in|= ?[\[{(]|[{}\[\];]")),
    (0.25, "line", 2, re.compile(r'"\w+"\s*:|^\w+: \S|</?\w+[^>]*>|^\s*- ', re.MULTILINE)),
    (0.20, "word", 8, re.compile(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32,}|https?://\S+"
        r"|[a-z]+_[a-z]+_[a-z_]+|[a-z]+[A-Z][a-z]+[A-Z][a-z]+", _ANY)),
    (0.10, "word", 10, re.compile(r"v?\d+\.\d+\.\d+|\d+\.\d+\.\d+\.\d+|\d{4}-\d\d-\d\d|\d{5,}")),
)  # fmt: skip


def score_as_described(text: str) -> float:
    """Return the score of the reference's formula with its matches as it describes them."""
    lines = text.splitlines() or [""]
    units = {"word": max(1, len(text.split())), "line": len(lines)}
    mean = sum(map(len, lines)) / len(lines)
    shape = max(0.0, 1 - mean / 80) * min(len(lines) / 10, 1) if len(lines) > 1 else 0.0
    return 0.15 * shape + sum(
        weight * min(1.0, factor * len(pattern.findall(text)) / units[unit])
        for weight, unit, factor, pattern in _AS_DESCRIBED
    )


def tables() -> Iterator[str]:
    """Yield the lines of the tables."""
    ours, theirs = DensityClassifier().score, score_as_described
    held_out = [sample for sample in samples() if sample.held_out]
    yield "| held-out texts | ours | matches as the reference describes them |"
    yield "|---|---:|---:|"
    for name, group in _groups(held_out):
        yield f"| {name} | {_right(group, ours)} | {_right(group, theirs)} |"


def _groups(held_out: list[Sample]) -> Iterator[tuple[str, list[Sample]]]:
    yield "all", held_out
    yield "with a trap", [sample for sample in held_out if sample.trap]
    for density in ("dense", "sparse"):
        side = [sample for sample in held_out if sample.density == density]
        yield f"**{density}**", side
        for kind in dict.fromkeys(sample.kind for sample in side):
            yield kind, [sample for sample in side if sample.kind == kind]
        for language in sorted({sample.language for sample in side}):
            yield f"{density}, `{language}`", [sample for sample in side if sample.language == language]


def _right(group: Iterable[Sample], score: Callable[[str], float]) -> str:
    answers = [(score(sample.text) >= DEFAULT_DENSE_THRESHOLD) == (sample.density == "dense") for sample in group]
    return f"{sum(answers)} of {len(answers)}"


if __name__ == "__main__":
    print("\n".join(tables()))  # noqa: T201  # it prints for the person who runs it
