"""Conflicts: pairs of memories that may contradict one another, for a person, an agent or a model to decide."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from memcore.backends.current import ALIKE
from memcore.backends.evidence import terms_of
from memcore.embedding.bm25 import BEGINNING, Tokenizer, fold
from memcore.models.memory import CONSOLIDATED_TAG, MemoryEntry

#: Most memories that are compared, the newest.
MOST_COMPARED = 10_000

#: A term that more memories have says nothing about what one is about.
_COMMON = 200

#: Common words whose bits one number holds.
_BITS = 64

#: Older memories that one is compared with, those that have most words in common with it.
_MOST_LOOKS = 256

#: Say that something is not so, or so no more; each with the words that go with it alone.
_DENIAL = re.compile(
    r"\b(?:no longer|no more|not|no|never|without|cannot|\w{2,7}n['\u2019]t|used to|g[ai]ven? up|stop(?:s|ped|ping)?|"
    r"quit|ceased|former(?:ly)?|nicht|keine?[mnrs]?|nie(?:mals)?|ohne|ehemals|geen|niet|nooit|zonder|"
    r"ne|n(?=['\u2019])|pas|jamais|sans|ya no|nunca|jamás|sin|não|nao|sem|non|senza)\b"
)

#: Go with a denial, and are no part of what is denied.
_BESIDE_DENIAL = re.compile(r"\b(?:any|anymore|more|longer|mehr|meer|plus|più|piu|mais|más|ya|já)\b")

#: Most terms of a memory that is compared: a longer text says many things.
_MOST_TERMS = 60


_tokenizer = Tokenizer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two memories of which one may contradict the other.

    Attributes:
        verdict: what a language model said of them: ``superseded``, which holds and an undo of the run takes
            back, or ``unsure``, which waits for a person. None where both say different things in nearly the same
            words.
        run_id: the run that said so.
    """

    older: MemoryEntry
    newer: MemoryEntry
    verdict: Literal["superseded", "unsure"] | None = None
    run_id: str | None = None


def conflicts(memories: Sequence[MemoryEntry]) -> tuple[Conflict, ...]:
    """Return the pairs of an agent's memories that may contradict one another, the latest first: all that are found."""
    return tuple(possible_conflicts(memories))


def possible_conflicts(memories: Sequence[MemoryEntry]) -> Iterator[Conflict]:
    """Yield the pairs of an agent's memories that may contradict one another, the latest first, as they are looked for.

    Both have many words in common, which no third memory has all of, and each has others: "Ada's office is in Oslo" and
    "Ada's office is in Rome" are a pair; where twenty offices are in Oslo, those of Ada and Ben are none. What was
    superseded, and summaries, are left out. Two of the same words are a pair where one denies what the other says, as
    "Ada is vegetarian" and "Ada is no longer vegetarian" do. A memory is compared with at most 256 older ones: with
    those of its rare words that have most words in common with it.
    """
    entries = [each for each in memories if each.superseded_by is None and CONSOLIDATED_TAG not in each.metadata.tags]
    entries.sort(key=lambda entry: (entry.last_stated_at, entry.id))
    entries = entries[-MOST_COMPARED:]
    terms = [_Terms.of(entry.content) for entry in entries]
    index = _Index(terms)
    for new in reversed(range(len(entries))):
        for old in sorted(index.likeliest(new), reverse=True):
            if index.is_pair(old, new):
                yield Conflict(older=entries[old], newer=entries[new])


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a memory says: its terms, the same with each number as one, and what it says or denies."""

    words: frozenset[str]
    with_numbers: frozenset[str]
    said: frozenset[str]
    is_denial: bool

    @classmethod
    def of(cls, text: str) -> "_Terms":
        words, plain = frozenset(term for term in terms_of(text) if not term.startswith(BEGINNING)), fold(text)
        # "10:15" has the terms 10, 15 and its exact form.
        with_numbers = frozenset(term for term in words if not term.isdigit())
        said = _tokenizer.both_terms(_BESIDE_DENIAL.sub(" ", _DENIAL.sub(" ", plain)))[0]
        return cls(words, with_numbers, frozenset(said), _DENIAL.search(plain) is not None)

    def is_near(self, other: "_Terms") -> bool:
        """Return whether both have many words in common, and each has others."""
        if self.words <= other.words or other.words <= self.words:
            return False
        return _alike(self.words, other.words) or _alike(self.with_numbers, other.with_numbers)

    def denies(self, other: "_Terms") -> bool:
        """Return whether one says that what the other says is not so."""
        return self.is_denial is not other.is_denial and self.said == other.said and bool(self.said)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return 2 * len(one & other) >= ALIKE * (len(one) + len(other))


class _Index:
    """Which memories have a word, by their places in the order of time."""

    def __init__(self, terms: Sequence[_Terms]) -> None:
        self._terms = terms
        having: defaultdict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(terms):
            for word in each.words if len(each.words) <= _MOST_TERMS else ():
                having[word].append(place)
        self._with = {word: frozenset(places) for word, places in having.items() if len(places) <= _COMMON}
        self._rare = {word: np.array(having[word]) for word in self._with}
        common = [word for word in having if word not in self._rare]
        self._bits = {word: divmod(number, _BITS) for number, word in enumerate(common)}
        # A bit for each common word of each memory: how many two have in common is counted without a set.
        self._common = np.zeros((len(terms), len(common) // _BITS + 1), dtype=np.uint64)
        for word in common:
            self._set_bit(self._common, having[word], word)
        self._sizes = np.array([len(each.with_numbers) for each in terms])

    def _set_bit(self, rows: npt.NDArray[np.uint64], places: list[int], word: str) -> None:
        column, bit = self._bits[word]
        rows[places, column] |= np.uint64(1 << bit)

    def likeliest(self, new: int) -> list[int]:
        """Return the older memories that share a rare word with one and may be near it, those with most in common."""
        words = self._terms[new].words
        found_rare = [self._rare[word] for word in words if word in self._rare]
        rare = sorted(found_rare, key=lambda places: places.size)[:_MOST_TERMS]
        if not rare:
            return []
        own = np.zeros((1, self._common.shape[1]), dtype=np.uint64)
        for word in words & self._bits.keys():
            self._set_bit(own, [0], word)
        older, shared = np.unique(np.concatenate(rare), return_counts=True)
        older, shared = older[older < new], shared[older < new]
        shared = shared + np.bitwise_count(self._common[older] & own).sum(axis=1)
        near = 2 * shared >= ALIKE * (self._sizes[new] + self._sizes[older])
        older, shared = older[near], shared[near]
        found: list[int] = older[np.lexsort((older, shared))[-_MOST_LOOKS:]].tolist()
        return found

    def is_pair(self, old: int, new: int) -> bool:
        """Return whether two memories may contradict one another."""
        one, other = self._terms[old], self._terms[new]
        if other.denies(one):
            return True
        if not other.is_near(one):
            return False
        shared = one.words & other.words
        # Among those with the rarest words, and no further than to a third memory: where a thousand have one form, it
        # is the next.
        having = [self._with[word] for word in shared if word in self._with]
        rarest, *rarer = sorted(having, key=len)
        thirds = rarest & rarer[0] if rarer else rarest
        return not any(third not in (old, new) and shared <= self._terms[third].words for third in thirds)
