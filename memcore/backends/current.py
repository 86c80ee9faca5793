"""Current before outdated: of two memories that answer a question in nearly the same words, the newer comes first."""

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from memcore.backends.evidence import MOST_JUDGED, question_terms, terms_of
from memcore.embedding.bm25 import Tokenizer, fold

#: Least Dice coefficient of the words of both: what changed is the value, not the subject.
_ALIKE = 0.4

#: Share of the older one's score that the newer has at least: beside a worse match nothing is outdated.
_NEAR = 0.9

#: What may stand around a name in a question.
_BESIDE_NAMES = "\"'()[]{}<>*`.,;:!?"


def newer_first(
    question: str, scores: Mapping[str, float], memories: Mapping[str, tuple[str, datetime]]
) -> dict[str, float]:
    """Return the scores; a memory that an older one may only precede by chance has at least the older one's.

    Both have the same words of the question and many others in common, as "the phone number of Ada is 1" and "the phone
    number of Ada is 2" have. The first of a ranking are compared. ``memories`` has the text and the time
    of each; of equal scores the newer has to come first in the order that is made of them.
    """
    asked, names = question_terms(question), _names(question)
    alike: defaultdict[tuple[frozenset[str], frozenset[str]], list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for key in sorted(scores, key=scores.__getitem__, reverse=True)[:MOST_JUDGED]:
        text = memories[key][0]
        terms = terms_of(text)
        if said := terms & asked:
            named = frozenset(name for name, pattern in names.items() if pattern.search(fold(text)))
            alike[said, named].append((key, terms))
    found = dict(scores)
    for group in alike.values():
        for place, (older, words) in enumerate(group):
            for newer, others in group[place + 1 :]:
                is_newer = memories[newer][1] > memories[older][1] and scores[newer] >= _NEAR * scores[older]
                if is_newer and 2 * len(words & others) >= _ALIKE * (len(words) + len(others)):
                    found[newer] = max(found[newer], found[older])
    return found


def _names(question: str) -> dict[str, re.Pattern[str]]:
    """Return the names of several parts in a question, as "walrus_3" is one: their parts stand in other names too."""
    names = {fold(word).strip(_BESIDE_NAMES) for word in question.split()}
    return {name: re.compile(rf"(?<!\w){re.escape(name)}(?!\w)") for name in names if len(Tokenizer.words(name)) > 1}
