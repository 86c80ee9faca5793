"""A figure of the bench: what was measured, how often, and how far the measurements lie apart."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the report.

    Attributes:
        unit: of the samples.
        samples: one value for each repetition.
        cpu_ms: CPU milliseconds for each piece of work, over all processes that shared in it; None where it says
            nothing.
        note: where the CPU went, or what the figure is to be held against.
    """

    group: str
    name: str
    unit: str
    samples: Sequence[float]
    cpu_ms: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def most(self) -> float:
        return max(self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A relation between figures that the bench was built to watch."""

    name: str
    values: Sequence[float]
    wanted: float
    at_most: bool = False

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool:
        return self.value <= self.wanted if self.at_most else self.value >= self.wanted
