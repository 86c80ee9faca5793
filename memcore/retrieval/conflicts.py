"""Conflicts: pairs of memories that may contradict one another, for a person, an agent or a model to decide."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memcore.backends.current import ALIKE
from memcore.backends.evidence import terms_of
from memcore.embedding.bm25 import BEGINNING, Tokenizer, fold
from memcore.models.memory import CONSOLIDATED_TAG, MemoryEntry

#: Most memories that are compared, the newest.
MOST_COMPARED = 10_000

#: A term that more memories have says nothing about what one is about.
_COMMON = 200

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
    """Return the pairs of an agent's memories that may contradict one another, the latest first.

    Both have many words in common, which no third memory has all of, and each has others: "Ada's office is in Oslo" and
    "Ada's office is in Rome" are a pair; where twenty offices are in Oslo, those of Ada and Ben are none. What was
    superseded, and summaries, are left out. Two of the same words are a pair where one denies what the other says, as
    "Ada is vegetarian" and "Ada is no longer vegetarian" do.
    """
    entries = [each for each in memories if each.superseded_by is None and CONSOLIDATED_TAG not in each.metadata.tags]
    entries.sort(key=lambda entry: (entry.last_stated_at, entry.id))
    entries = entries[-MOST_COMPARED:]
    terms = [_Terms.of(entry.content) for entry in entries]
    having: defaultdict[str, set[int]] = defaultdict(set)
    for place, each in enumerate(terms):
        for word in each.words if len(each.words) <= _MOST_TERMS else ():
            having[word].add(place)
    found = [Conflict(older=entries[old], newer=entries[new]) for old, new in _pairs(terms, having)]
    return tuple(sorted(found, key=lambda each: (each.newer.last_stated_at, each.older.last_stated_at), reverse=True))


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


def _pairs(terms: Sequence[_Terms], having: Mapping[str, set[int]]) -> Iterator[tuple[int, int]]:
    for new, each in enumerate(terms):
        near = {
            old for word in each.words if len(places := having.get(word, ())) <= _COMMON for old in places if old < new
        }
        for old in near:
            if each.denies(terms[old]):
                yield old, new
                continue
            if not each.is_near(terms[old]):
                continue
            # The rarest first, and no further than to a third memory: where a thousand have one form, it is the next.
            rarest, *others = sorted((having[word] for word in each.words & terms[old].words), key=len)
            if not any(third not in (old, new) and all(third in it for it in others) for third in rarest):
                yield old, new
