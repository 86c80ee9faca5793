"""A fall: something that the storm brought down, and when it stood again."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Fall:
    """One kill and its end.

    Attributes:
        target: what fell.
        at: when, in seconds of the wall clock, which all processes share.
        restarts: how often its part had been started again before.
        children: pids of the night worker's children before, when one of them fell.
        up_at: when it was seen ready again; None so far.
    """

    target: str
    at: float
    restarts: int
    children: frozenset[int] = frozenset()
    up_at: float | None = None

    @property
    def seconds_down(self) -> float | None:
        """From the kill to ready."""
        return None if self.up_at is None else self.up_at - self.at


def by_target(falls: Sequence[Fall]) -> Counter[str]:
    """Count the falls of each target."""
    return Counter(fall.target for fall in falls)


def longest_down(falls: Sequence[Fall]) -> dict[str, float]:
    """Return, for each target, the longest time from kill to ready."""
    longest: dict[str, float] = defaultdict(float)
    for fall in falls:
        longest[fall.target] = max(longest[fall.target], fall.seconds_down or 0.0)
    return dict(longest)


def longest_until(falls: Sequence[Fall], moments: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return, for each target, the longest time from a kill until something that began after it had ended.

    Args:
        falls: the kills.
        moments: begin and end of each thing, here of stores.
    """
    longest: dict[str, float] = {}
    for fall in falls:
        ends = [end for begin, end in moments if begin >= fall.at]
        if ends:
            longest[fall.target] = max(longest.get(fall.target, 0.0), min(ends) - fall.at)
    return longest
