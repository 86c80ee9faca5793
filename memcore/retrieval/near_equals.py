"""Near-equals: of many memories that say nearly the same, three are shown, and the rest stand behind all others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memcore.backends.evidence import terms_of
from memcore.models.memory import day_of
from memcore.retrieval.protocol import ScoredMemory
from memcore.retrieval.repetitions import is_said

#: Least Dice coefficient of the words of two that say nearly the same, and how many of these are shown before others.
_NEARLY, _SHOWN_FIRST = 0.5, 3


@dataclass(slots=True)
class _Shown:
    """A memory that keeps its place, and those behind it that say nearly the same."""

    memory: ScoredMemory
    terms: frozenset[str]
    alike: list[ScoredMemory] = field(default_factory=list)


def varied(memories: Sequence[ScoredMemory], *, most: int) -> tuple[ScoredMemory, ...]:
    """Return memories, best first; of more than three that say nearly the same the rest stand behind all others.

    The best of the three has the number of all, with the days that they span. A memory keeps its place where it has a
    name or a number, or beside these a negation or another word that turns a statement, that no shown one has. The last
    have the lowest score of all, so that what follows keeps them there. Facts of the organisation stay, and so does
    what stands behind the first ``most`` that keep their places.
    """
    shown: list[_Shown] = []
    last: list[ScoredMemory] = []
    texts = [each.entry.content for each in memories]
    rest = iter(memories)
    for memory in rest:
        each = _Shown(memory, terms_of(memory.entry.content))
        near = [one for one in shown if _is_nearly(one, each)]
        said = [one.memory.entry.content for one in near]
        if len(near) < _SHOWN_FIRST or not is_said(memory.entry.content, said, among=texts):
            shown.append(each)
        else:
            near[0].alike.append(memory)
            last.append(memory)
        if len(shown) == most:
            break
    if not last:
        return tuple(memories)
    least = min(each.combined_score for each in memories)
    behind = (each.model_copy(update={"combined_score": least}) for each in last)
    kept = (one.memory.model_copy(update=_counted(one)) if one.alike else one.memory for one in shown)
    return (*kept, *rest, *behind)


def _is_nearly(one: _Shown, other: _Shown) -> bool:
    least = _NEARLY * (len(one.terms) + len(other.terms)) / 2
    # What has no terms is like nothing.
    if not 0 < least <= min(len(one.terms), len(other.terms)) or one.memory.is_shared is not other.memory.is_shared:
        return False
    if one.memory.is_reference is not other.memory.is_reference:
        return False
    return len(one.terms & other.terms) >= least and not one.memory.is_fact and not other.memory.is_fact


def _counted(one: _Shown) -> dict[str, object]:
    every = [one.memory, *one.alike]
    first = min(each.entry.created_at for each in every)
    until = max(each.entry.last_stated_at for each in every)
    return {"count": sum(each.count for each in every), "counted_days": f"{day_of(first)} to {day_of(until)}"}
