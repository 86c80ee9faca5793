"""The text format of Prometheus, version 0.0.4: families, their samples, and histograms."""

import math
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

#: The media type of the text.
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric.

    Attributes:
        name: with its unit at the end, and ``_total`` for a counter.
        labels: the labels that each of its samples has; none names an agent, none holds text of a person's.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Samples:
    """The values of one scrape; a value that is set again takes the place of the first."""

    _values: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    _histograms: dict[str, "Histogram"] = field(default_factory=dict)

    def set(self, family: Family, value: float, **labels: str) -> None:
        """Set a value. Raises ValueError for labels that are not the family's."""
        if set(labels) != set(family.labels):
            raise ValueError(f"{family.name}: has the labels {family.labels}, and was given {tuple(labels)}")
        self._values.setdefault(family.name, {})[tuple(labels[name] for name in family.labels)] = value

    def is_set(self, family: Family, **labels: str) -> bool:
        """Whether a value was set."""
        return tuple(labels[name] for name in family.labels) in self._values.get(family.name, {})

    def value(self, family: Family, **labels: str) -> float:
        """Return a value that was set, else 0."""
        return self._values.get(family.name, {}).get(tuple(labels[name] for name in family.labels), 0.0)

    def labelled(self, family: Family) -> list[tuple[dict[str, str], float]]:
        """Return the values of a family, each with its labels."""
        values = self._values.get(family.name, {})
        return [(dict(zip(family.labels, labels, strict=True)), value) for labels, value in values.items()]

    def show(self, family: Family, histogram: "Histogram") -> None:
        """Show a histogram."""
        self._histograms[family.name] = histogram

    def text(self, families: Iterable[Family]) -> str:
        """Return the families as text, each with its meaning, also where it has no value now."""
        return "\n".join(line for family in families for line in self._lines(family)) + "\n"

    def _lines(self, family: Family) -> Iterable[str]:
        yield f"# HELP {family.name} {family.meaning}"
        yield f"# TYPE {family.name} {family.kind}"
        for values, value in sorted(self._values.get(family.name, {}).items()):
            yield f"{family.name}{_labels(zip(family.labels, values, strict=True))} {_number(value)}"
        if family.name in self._histograms:
            yield from self._histograms[family.name].lines(family.name)


class Histogram:
    """Counts durations by upper bounds, in seconds. Thread-safe."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        place = bisect_left(self._bounds, seconds)
        with self._lock:
            self._counts[place] += 1
            self._sum += seconds

    def lines(self, name: str) -> Iterable[str]:
        """Return its lines: each bucket counts all up to its bound."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        below = 0
        for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
            below += count
            yield f"{name}_bucket{_labels([('le', _number(bound))])} {below}"
        yield f"{name}_sum {_number(total)}"
        yield f"{name}_count {below}"


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() else repr(float(value))
