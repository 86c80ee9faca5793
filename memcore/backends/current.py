"""Current before outdated: what replaced a memory comes before it, and of two in nearly the same words the newer."""

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from itertools import combinations

from memcore.backends.evidence import MOST_JUDGED, question_terms, terms_of
from memcore.backends.when import AskedRange
from memcore.embedding.bm25 import Tokenizer, bare, fold
from memcore.models.memory import MemoryEntry

#: Least Dice coefficient of the words of both: what changed is the value, not the subject.
ALIKE = 0.4

#: Share of the older one's score that the newer has at least: beside a worse match nothing is outdated.
_NEAR = 0.9

#: Share of its successor's score that a memory has at most.
_BEHIND = 0.99

#: What may stand around a name in a question.
_BESIDE_NAMES = "\"'()[]{}<>*`.,;:!?"


def newer_first(
    question: str, scores: Mapping[str, float], memories: Mapping[str, MemoryEntry], *, asked: AskedRange | None = None
) -> dict[str, float]:
    """Return the scores; a memory that an older one may only precede by chance has at least the older one's.

    So has what replaced a memory (``superseded_by``), and that is behind it. Two others have the same words of the
    question and many in common, as "the phone number of Ada is 1" and "the phone number of Ada is 2" have. The first
    of a ranking are compared. ``memories`` has the entry of each; of equal scores the newer has to come first in the
    order that is made of them. Who asks for a time (``asked``) may want what was true then: nothing is compared, and
    what is of that time keeps its place.
    """
    if asked is None:
        return _behind_successors(_compared(question, scores, memories), memories)
    of_then = {key: each.known_at(each.created_at) if asked.has(each) else each for key, each in memories.items()}
    return _behind_successors(dict(scores), of_then)


def _compared(question: str, scores: Mapping[str, float], memories: Mapping[str, MemoryEntry]) -> dict[str, float]:
    asked, names = question_terms(question), _names(question)
    alike: defaultdict[tuple[frozenset[str], frozenset[str]], list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for key in sorted(scores, key=scores.__getitem__, reverse=True)[:MOST_JUDGED]:
        text = memories[key].content
        terms = terms_of(text)
        if said := terms & asked:
            named = frozenset(name for name, pattern in names.items() if pattern.search(fold(text)))
            alike[said, named].append((key, terms))
    found, plain = dict(scores), cache(bare)
    for every in alike.values():
        said_at = {key: memories[key].last_stated_at for key, _ in every} if len(every) > 1 else {}
        for (older, words), (newer, others) in combinations(every, 2):
            if (
                found[newer] < found[older]
                and said_at[newer] > said_at[older]
                and scores[newer] >= _NEAR * scores[older]
                and _are_alike(plain(words), plain(others))
            ):
                found[newer] = found[older]
    return found


def _are_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    return 2 * len(words & others) >= ALIKE * (len(words) + len(others))


def _behind_successors(scores: dict[str, float], memories: Mapping[str, MemoryEntry]) -> dict[str, float]:
    """Return the scores; what replaced a memory has at least its score, and that has less than what replaced it."""
    chains = {key: _successors(key, memories, scores) for key in memories if key in scores}
    best = dict(scores)
    for key, chain in chains.items():
        for newer in chain:
            best[newer] = max(best[newer], scores[key])
    # The last of several first, so that each has less than the one after it.
    for key in sorted(chains, key=lambda key: len(chains[key])):
        if chains[key]:
            best[key] = min(best[key], _BEHIND * best[chains[key][0]])
    return best


def _successors(key: str, memories: Mapping[str, MemoryEntry], scores: Mapping[str, float]) -> list[str]:
    """Return what replaced a memory, what replaced that, and so on, as far as it was found."""
    found: list[str] = []
    following = memories[key].superseded_by
    while following is not None and following in scores and following not in {key, *found}:
        found.append(following)
        following = memories[following].superseded_by
    return found


def _names(question: str) -> dict[str, re.Pattern[str]]:
    """Return the names of several parts in a question, as "walrus_3" is one: their parts stand in other names too."""
    names = {fold(word).strip(_BESIDE_NAMES) for word in question.split()}
    return {name: re.compile(rf"(?<!\w){re.escape(name)}(?!\w)") for name in names if len(Tokenizer.words(name)) > 1}
