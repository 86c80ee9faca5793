"""An outage: a part that was killed, and when it was ready again."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Outage:
    """One kill and its end.

    Attributes:
        target: what was killed.
        at: when, in seconds of the wall clock, which all processes share.
        restarts: how often its part had been started again before.
        children: pids of the maintenance worker's children before, when one of them was killed.
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


def by_target(outages: Sequence[Outage]) -> Counter[str]:
    """Count the outages of each target."""
    return Counter(outage.target for outage in outages)


def longest_down(outages: Sequence[Outage]) -> dict[str, float]:
    """Return, for each target, the longest time from kill to ready."""
    longest: dict[str, float] = defaultdict(float)
    for outage in outages:
        longest[outage.target] = max(longest[outage.target], outage.seconds_down or 0.0)
    return dict(longest)


def longest_until(outages: Sequence[Outage], moments: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return, for each target, the longest time from a kill until something that began after it had ended.

    Args:
        outages: the kills.
        moments: begin and end of each thing, here of stores.
    """
    longest: dict[str, float] = {}
    for outage in outages:
        ends = [end for begin, end in moments if begin >= outage.at]
        if ends:
            longest[outage.target] = max(longest.get(outage.target, 0.0), min(ends) - outage.at)
    return longest
