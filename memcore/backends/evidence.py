"""Evidence: how far a memory can answer a question, on one scale for all questions.

A ranking is relative: its first is the best that there is, however bad. Evidence is what thresholds are held against.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from memcore.backends.time_phrases import idle_words
from memcore.backends.when import AskedRange
from memcore.embedding.bm25 import EXACT, Tokenizer
from memcore.embedding.languages import is_part
from memcore.embedding.sentences import part_sentences
from memcore.models.memory import MemoryEntry

#: Best evidence below which a question has no answer in a store, unless the policy says otherwise. Of questions about
#: other people and things none reaches it, of those of other conversations 8 in 100 (make bench-judgement).
DEFAULT_MIN_EVIDENCE = 0.45

#: Cosine up to which similarity is chance, where nobody measured it; the default embedder's, rounded.
DEFAULT_NOISE = 0.4

#: Memories that are judged, the first of a ranking: what is behind them has no better evidence.
MOST_JUDGED = 20

#: How much more a name or a number says about what a question is about than another word as rare.
_NAMED = 5.0

#: Share of a range of time in a question where its words are no terms.
_LITTLE = 0.2

#: Evidence below which the rest of a question that names a time counts as not answered at all.
_LEAST_ANSWERED = 0.1

#: Share of a question that counts as not answered at least, or times would weigh nothing where all is answered.
_LEAST_ODDS = 0.5

#: Three letters at most, or one of Hiragana.
_SHORT = re.compile(r"[^\W\d_\u2e80-\uffff]{1,3}|[\u3041-\u309f]")

#: The terms of a word of a question, any of which is that word.
_Forms = tuple[str, ...]

#: The term of an asked range of time; no word is empty.
_IN_TIME = frozenset({""})
_TIME: _Forms = ("",)

#: Words of a sentence that have to be found at most, and sentences of a question that are judged, the last ones: a turn
#: of a conversation may be long, and no memory says all of it.
_TELLING, _MOST_SENTENCES = 8, 50

#: Memories among which a word's rarity is counted; those judged stand for all that have it.
_AMONG = 100

#: Longest text whose terms are kept, in characters.
_KEPT_CHARS = 4_096

_tokenizer = Tokenizer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory that a search found: its words, its cosine where it is known, and whether it is of the asked time.

    What it is labelled with counts as words of it.
    """

    text: str
    labels: str = ""
    cosine: float | None = None
    is_in_time: bool = False

    @classmethod
    def of(cls, entry: MemoryEntry, cosine: float | None, asked: AskedRange | None = None) -> "Candidate":
        """Return an entry as a candidate, labelled with its day and its tags."""
        day, is_in_time = entry.created_at, asked is not None and asked.has(entry)
        labels = " ".join([f"{day.day} {day:%B %Y}", *sorted(entry.metadata.tags)])
        return cls(text=entry.content, labels=labels, cosine=cosine, is_in_time=is_in_time)

    @property
    def terms(self) -> frozenset[str]:
        """Its words as terms."""
        # Apart, since the terms of a text are kept, and others ask for them.
        said = terms_of(self.text) | terms_of(self.labels)
        return said | _IN_TIME if self.is_in_time else said


def best_evidence(
    question: str,
    candidates: Sequence[Candidate],
    *,
    noise: float = DEFAULT_NOISE,
    asked: AskedRange | None = None,
) -> float:
    """Return the best evidence of the first candidates of a ranking, 0 to 1; 0.0 of none.

    Evidence is the share of a sentence's telling words that one memory has, each by its rarity among the candidates and
    names and numbers five times, or how far its cosine is above ``noise``: ``1 - (1 - words) * (1 - meaning)``.
    A question of several sentences has the best evidence of any. A range of time that it names (``asked``) counts as
    one name, which each memory of that time has.
    """
    sentences = [*part_sentences(question)][-_MOST_SENTENCES:]
    weights = list(map(_weights, sentences))
    if asked is not None:
        weights += [_with_time(each, asked) for each in sentences]
    return _best_evidence(weights, candidates[:MOST_JUDGED], noise=noise)


def _best_evidence(sentences: Sequence[Mapping[_Forms, float]], judged: Sequence[Candidate], *, noise: float) -> float:
    shares = _shares(sentences, [each.terms for each in judged])
    best = 0.0
    for each, words in zip(judged, shares, strict=True):
        meaning = 0.0 if each.cosine is None or noise >= 1.0 else max(0.0, (each.cosine - noise) / (1.0 - noise))
        best = max(best, 1.0 - (1.0 - words) * (1.0 - min(1.0, meaning)))
    return best


def _shares(sentences: Sequence[Mapping[_Forms, float]], having: Sequence[frozenset[str]]) -> list[float]:
    """Return the greatest share of any sentence's words that each memory has."""
    shares = [0.0] * len(having)
    for weights in sentences:
        shared = [[forms for forms in weights if not terms.isdisjoint(forms)] for terms in having]
        spread = Counter(forms for found in shared for forms in found if forms != _TIME)
        worth = {
            forms: weight * math.log1p((_AMONG - spread[forms] + 0.5) / (spread[forms] + 0.5))
            for forms, weight in weights.items()
        }
        whole = sum(sorted(worth.values(), reverse=True)[:_TELLING])
        if whole:
            found = (min(1.0, sum(map(worth.__getitem__, each)) / whole) for each in shared)
            shares = list(map(max, shares, found))
    return shares


def absolute(share: float, evidence: float) -> float:
    """Return a relevance that compares between questions: the question's best evidence, less for what ranks behind.

    ``share`` is the score in a ranking whose best may have 1. The order of a ranking stays as it is.
    """
    return evidence * math.sqrt(max(0.0, share))


def weight_of_time(question: str, asked: AskedRange, candidates: Sequence[Candidate], *, noise: float) -> float:
    """Return what a memory of the asked time gains, as a multiple of the best score: much where nothing else is asked.

    It is the share of time in the question, one name beside the other telling words, by the evidence for the rest of
    it. The share is squared: beside names, the time is seldom that at which the answer was written down.
    ``candidates`` are the first of the ranking without the time.
    """
    timed = [_with_time(each, asked) for each in part_sentences(question)]
    timed = [weights for weights in timed if _TIME in weights]
    share = max((_NAMED / sum(weights.values()) for weights in timed), default=_LITTLE)
    rest = [{forms: weight for forms, weight in weights.items() if forms != _TIME} for weights in timed]
    answered = max(_LEAST_ANSWERED, _best_evidence(rest, candidates[:MOST_JUDGED], noise=noise))
    return share**2 * max(_LEAST_ODDS, 1.0 - answered) / answered


def _with_time(sentence: str, asked: AskedRange) -> dict[_Forms, float]:
    """Return the weights of a sentence with one for the range instead of its words, if the sentence has these.

    Short words are left out beside it: in languages without a list of stop words here they are such, mostly.
    """
    weights, (named, _) = _weights(sentence), _tokenizer.both_terms(" ".join(asked.words))
    if not named or not set(named).issubset(_tokenizer.terms(sentence)):
        return weights
    telling = {
        forms: weight
        for forms, weight in weights.items()
        if not is_part(forms[0], named) and (weight == _NAMED or not _SHORT.fullmatch(forms[0]))
    }
    return {**telling, _TIME: _NAMED}


def _weights(question: str) -> dict[_Forms, float]:
    """Return the weight of each word of a question."""
    forms_of = _tokenizer.query_forms(question)
    weights = {forms: _NAMED if forms[-1].startswith(EXACT) else 1.0 for forms in forms_of}
    # The first word of a sentence has a capital letter anyway.
    for word in question.split()[1:]:
        if word.lstrip("\"'([*_")[:1].isupper() or any(map(str.isdigit, word)):
            named = set(_tokenizer.terms(word))
            weights.update({forms: _NAMED for forms in weights if not named.isdisjoint(forms)})
    # Words of time are no subject, unless there is no other.
    idle = frozenset(_tokenizer.both_terms(" ".join(idle_words(question)))[0])
    return {forms: weight for forms, weight in weights.items() if forms[0] not in idle} or weights


def question_terms(question: str) -> frozenset[str]:
    """Return the terms of a question, each once."""
    return frozenset(_tokenizer.query_terms(question))


def terms_of(text: str) -> frozenset[str]:
    """Return the terms of a memory's text, each once; those of short texts are kept a while."""
    return _kept_terms(text) if len(text) <= _KEPT_CHARS else frozenset(_tokenizer.terms(text))


@lru_cache(maxsize=2_048)
def _kept_terms(text: str) -> frozenset[str]:
    # What an agent asks in a row finds the same memories.
    return frozenset(_tokenizer.terms(text))
