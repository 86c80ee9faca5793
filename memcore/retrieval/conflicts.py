"""Conflicts: pairs of memories that may contradict one another, for a person, an agent or a model to decide."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memcore.backends.current import ALIKE
from memcore.backends.evidence import terms_of
from memcore.models.memory import CONSOLIDATED_TAG, MemoryEntry

#: Most memories that are compared, the newest.
MOST_COMPARED = 10_000

#: A term that more memories have says nothing about what one is about.
_COMMON = 200

#: Most terms of a memory that is compared: a longer text says many things.
_MOST_TERMS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two memories that say different things in nearly the same words."""

    older: MemoryEntry
    newer: MemoryEntry


def conflicts(memories: Sequence[MemoryEntry]) -> tuple[Conflict, ...]:
    """Return the pairs of an agent's memories that may contradict one another, the latest first.

    Both have many words in common, which no third memory has all of, and each has others: "Ada's office is in Oslo" and
    "Ada's office is in Rome" are a pair; where twenty offices are in Oslo, those of Ada and Ben are none. What was
    superseded, and summaries, are left out.
    """
    entries = [each for each in memories if each.superseded_by is None and CONSOLIDATED_TAG not in each.metadata.tags]
    entries.sort(key=lambda entry: (entry.last_stated_at, entry.id))
    entries = entries[-MOST_COMPARED:]
    terms = [terms_of(entry.content) for entry in entries]
    having: defaultdict[str, set[int]] = defaultdict(set)
    for place, words in enumerate(terms):
        for word in words if len(words) <= _MOST_TERMS else ():
            having[word].add(place)
    found = [Conflict(older=entries[old], newer=entries[new]) for old, new in _pairs(terms, having)]
    return tuple(sorted(found, key=lambda each: (each.newer.last_stated_at, each.older.last_stated_at), reverse=True))


def _pairs(terms: Sequence[frozenset[str]], having: Mapping[str, set[int]]) -> Iterator[tuple[int, int]]:
    for new, words in enumerate(terms):
        near = {old for word in words if len(places := having.get(word, ())) <= _COMMON for old in places if old < new}
        for old in near:
            common = words & terms[old]
            is_alike = 2 * len(common) >= ALIKE * (len(words) + len(terms[old]))
            if not is_alike or words == common or terms[old] == common:
                continue
            if set.intersection(*(having.get(word, set()) for word in common)) == {old, new}:
                yield old, new
