"""Selects the lessons to forget: by age, or those that others beat in both relevance and recency."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Protocol

from memcore.config.maintenance import PruningConfig


class PrunableLesson(Protocol):
    """The fields of a lesson that pruning weighs; a MemoryEntry has them."""

    @property
    def id(self) -> str:
        """Its memory's id."""
        ...

    @property
    def created_at(self) -> datetime:
        """When it was drawn."""
        ...

    @property
    def relevance_score(self) -> float | None:
        """How relevant it is, 0 or more; None counts as 0."""
        ...


def to_prune(entries: Sequence[PrunableLesson], config: PruningConfig, *, now: datetime) -> tuple[str, ...]:
    """Return the ids that the policy forgets, in the order of the entries.

    Args:
        entries: an agent's lessons; where none was searched for, their relevance is None and age alone decides.
        config: the policy; ``hybrid`` forgets by age first, and what is left down to ``max_entries``.
        now: the time.
    """
    gone: set[str] = set()
    if config.type in {"ttl", "hybrid"}:
        gone.update(expired(entries, max_age=timedelta(days=config.max_age_days), now=now))
    if config.type in {"pareto", "hybrid"}:
        gone.update(surpassed([each for each in entries if each.id not in gone], max_entries=config.max_entries))
    return tuple(each.id for each in entries if each.id in gone)


def expired(entries: Iterable[PrunableLesson], *, max_age: timedelta, now: datetime) -> tuple[str, ...]:
    """Return the ids of those that are older than ``max_age``; who is exactly as old stays."""
    return tuple(each.id for each in entries if now - each.created_at > max_age)


def surpassed(entries: Sequence[PrunableLesson], *, max_entries: int) -> tuple[str, ...]:
    """Return the ids beyond the best ``max_entries``, so that exactly so many are left, or all if there are fewer.

    An entry beats another that it equals or exceeds in relevance and in recency, and exceeds in one. Layer after layer
    is kept: those that nobody beats, then those that only these beat, and so on; of the layer that does not fit, the
    newest. The reference keeps the first layer alone, which is a single entry when nobody has a relevance.
    """
    layer_of = _layers(entries)
    order = sorted(
        entries, key=lambda each: (layer_of[each.id], -each.created_at.timestamp(), -_relevance(each), each.id)
    )
    kept = {each.id for each in order[:max_entries]}
    return tuple(each.id for each in entries if each.id not in kept)


def _layers(entries: Sequence[PrunableLesson]) -> dict[str, int]:
    """Return the layer of each: the length of the longest chain of entries of which each beats the next, up to it."""
    layer_of: dict[str, int] = {}
    # The highest relevance of each layer so far, negated: it never falls from one layer to the next.
    tops: list[float] = []
    # Newest first: an entry that beats another comes before it.
    order = sorted(entries, key=_place, reverse=True)
    for (_, relevance), equals in groupby(order, key=_place):
        layer = bisect_right(tops, -relevance)
        if layer == len(tops):
            tops.append(-relevance)
        else:
            tops[layer] = -relevance
        layer_of.update({each.id: layer for each in equals})
    return layer_of


def _place(entry: PrunableLesson) -> tuple[datetime, float]:
    return entry.created_at, _relevance(entry)


def _relevance(entry: PrunableLesson) -> float:
    return entry.relevance_score or 0.0
