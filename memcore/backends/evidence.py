"""Evidence: how far a memory can answer a question, on one scale for all questions, and whether it earns its place.

A ranking is relative: its first is the best that there is, however bad. Evidence is what thresholds are held against;
among what a question has evidence for, a memory stands near the best or is left out.
"""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from typing import TypeVar

from memcore.backends.time_phrases import event_words, idle_words
from memcore.backends.when import AskedRange
from memcore.embedding.bm25 import EXACT, QUESTIONS_KEPT, Tokenizer
from memcore.embedding.languages import is_part
from memcore.embedding.sentences import part_sentences
from memcore.models.answers import Shown, Standing
from memcore.models.memory import MemoryEntry

#: Best evidence from which on a question has an answer in a store, unless the policy says otherwise. Of questions about
#: other people and things none reaches it, of those of other conversations 5 in 100 (make bench-judgement).
DEFAULT_MIN_EVIDENCE = 0.45

#: Share of the best score from which on a memory stands near it, less so much of the share that the tenth has (or the
#: last): where that is nearly as good, scores tell little, as in a chat; else the first few are what was asked for.
_NEAR, _LEVEL, _TENTH = 0.8, 0.6, 10

#: Memories that are shown at most where none is strong, and their least share of the best score.
MOST_WEAK, _NEAR_WEAK = 3, 0.6

#: Where a sentence that asks for several things falls into parts, one for each; single spaces stand between its words.
_BETWEEN_PARTS = re.compile(r"[,;:] | (?:and|or|und|oder|et|ou|y|o|e) ", re.IGNORECASE)

#: How near to the best in a part no other memory may come where one alone answers it, and the least share of the best
#: score that this one has.
_ALONE, _NEAR_ALONE = 0.8, 0.4

#: Share of the cosine of unrelated texts under which a memory that has no word of the question is foreign to it.
_FOREIGN = 0.25

#: How far a cosine may be below that of unrelated texts, as a share of what is above it, and be near all the same.
_NEARLY = -0.15

#: What a prompt takes off the share that is needed: a text that is read whole costs little, and a list of results much.
PROMPT_SLACK = 0.1

#: Share of a question's telling words below which meaning leads, and the share of the vectors then.
_FEW_WORDS, _LEADING_WEIGHT = 0.25, 0.9

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

#: Names of the months.
_MONTHS = tuple(date(1, month, 1).strftime("%B") for month in range(1, 13))

#: Memories among which a word's rarity is counted; those judged stand for all that have it.
_AMONG = 100

#: Longest text whose terms are kept, in characters.
_KEPT_CHARS = 4_096

_tokenizer = Tokenizer()


@dataclass(frozen=True, kw_only=True)
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
        """Return an entry as a candidate, labelled with its day and its tags; its search notes are no evidence."""
        day, is_in_time = entry.created_at, asked is not None and asked.has(entry)
        labels = " ".join([f"{day.day} {_MONTHS[day.month - 1]} {day.year}", *sorted(entry.metadata.tags)])
        return cls(text=entry.content, labels=labels, cosine=cosine, is_in_time=is_in_time)

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its words as terms."""
        # Apart, since the terms of a text are kept, and others ask for them.
        said = terms_of(self.text) | terms_of(self.labels)
        return said | _IN_TIME if self.is_in_time else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for one memory as an answer, each 0 to 1.

    Attributes:
        words: the share of the question's telling words that it has.
        meaning: how far its cosine is above that of unrelated texts, as a share of what there is above it.
        alone: the share of the telling words of a part of the question, where no other memory comes near it in that.
        is_foreign: whether nothing speaks for it at all, not even faintly.
        is_near: whether its cosine is above that of nearly all unrelated texts, if not of all.
        is_in_time: whether it is of the time that the question asks for.
    """

    words: float
    meaning: float
    alone: float
    is_foreign: bool
    is_near: bool = False
    is_in_time: bool = False

    @property
    def whole(self) -> float:
        """Words and meaning together, ``1 - (1 - words) * (1 - meaning)``, or a part that it alone answers."""
        return max(self.alone, 1.0 - (1.0 - self.words) * (1.0 - self.meaning))


def evidence_of(
    question: str,
    candidates: Sequence[Candidate],
    *,
    noise: float = DEFAULT_NOISE,
    asked: AskedRange | None = None,
) -> list[Evidence]:
    """Return the evidence of the first candidates of a ranking, at most ``MOST_JUDGED``.

    The telling words of a sentence count by their rarity among the candidates, names and numbers five times, and of a
    question of several sentences the best counts; meaning is how far the cosine is above ``noise``. A range of time
    that it names (``asked``) counts as one name, which each memory of that time has.
    """
    sentences = [] if asked is not None and asked.rest is not None else _weighed(question)
    if asked is not None:
        sentences += [_with_time(each, asked) for each in _judged_sentences(question)]
    return _evidence_of(sentences, candidates[:MOST_JUDGED], noise=noise, parts=_parts(question))


def _judged_sentences(question: str) -> list[str]:
    return [*part_sentences(question)][-_MOST_SENTENCES:]


def _parts(question: str) -> list[Mapping[_Forms, float]]:
    """Return the weights of each part of the sentences that ask for several things."""
    cut = [_BETWEEN_PARTS.split(each) for each in _judged_sentences(question)]
    parts = [part for each in cut if len(each) > 1 for part in each]
    # Their first words are no beginnings of sentences: a capital letter there is a name's.
    return [_weights(f"- {part}") for part in parts[-_MOST_SENTENCES:]]


def _weighed(question: str) -> list[Mapping[_Forms, float]]:
    return list(map(_weights, _judged_sentences(question)))


def _evidence_of(
    sentences: Sequence[Mapping[_Forms, float]],
    judged: Sequence[Candidate],
    *,
    noise: float,
    parts: Sequence[Mapping[_Forms, float]] = (),
) -> list[Evidence]:
    found: list[Evidence] = []
    having = [each.terms for each in judged]
    alone = [0.0] * len(judged)
    for part in parts:
        shares = _shares([part], having)
        best = max(shares, default=0.0)
        if sum(share >= _ALONE * best for share in shares) == 1:
            at = shares.index(best)
            alone[at] = max(alone[at], best)
    for each, words, by_part in zip(judged, _shares(sentences, having), alone, strict=True):
        cosine = 0.0 if each.cosine is None else each.cosine
        above = 0.0 if noise >= 1.0 else (cosine - noise) / (1.0 - noise)
        is_foreign = not words and each.cosine is not None and cosine < _FOREIGN * noise
        found.append(
            Evidence(
                words=words,
                meaning=min(1.0, max(0.0, above)),
                alone=by_part,
                is_near=above >= _NEARLY,
                is_in_time=each.is_in_time,
                is_foreign=is_foreign,
            )
        )
    return found


def best_of(found: Sequence[Evidence]) -> float:
    """Return the best evidence; 0.0 of none."""
    return max((each.whole for each in found), default=0.0)


def leading_weight(question: str, candidates: Sequence[Candidate], *, dense_weight: float) -> float:
    """Return the share of the vectors in a fusion: more where no candidate has many of the question's telling words."""
    weighed = _weighed(question)
    words = _shares(weighed, [each.terms for each in candidates[:MOST_JUDGED]])
    # Who gives the vectors no share at all wants none of them.
    has_few = dense_weight > 0.0 and any(weighed) and max(words, default=0.0) < _FEW_WORDS
    return max(dense_weight, _LEADING_WEIGHT) if has_few else dense_weight


Id = TypeVar("Id", bound=Hashable)


def needed_share(scores: Mapping[Id, float]) -> float:
    """Return the share of the best score of a ranking from which on a memory stands near it."""
    first = sorted((max(0.0, score) for score in scores.values()), reverse=True)[:_TENTH]
    return _NEAR - (_LEVEL * first[-1] / first[0] if len(first) > 1 and first[0] else 0.0)


def standings(
    scores: Mapping[Id, float], evidence: Mapping[Id, Evidence], *, least: float, slack: float = 0.0
) -> dict[Id, Standing]:
    """Return how each memory of a ranking stands, by its score there and the evidence of the first.

    Where the best evidence is ``least`` or more, what stands near the best score is strong, and so is what alone
    answers a part of the question, or is of the asked time where no memory has more of the words. Else up to
    ``MOST_WEAK`` that are not foreign are weak; beside a strong one these are not shown (``showing``). How many are
    asked for changes nothing. ``slack`` is taken off the needed share.
    """
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    best = max(0.0, scores[ranked[0]]) if ranked else 0.0
    is_answered = best_of([*evidence.values()]) >= least
    near = (needed_share(scores) - slack) * best
    most_words = max((each.words for each in evidence.values()), default=0.0)
    found = dict.fromkeys(ranked, Standing.ABSENT)
    for place, key in enumerate(ranked):
        own = evidence.get(key)
        is_alone = own is not None and own.alone >= least and scores[key] >= _NEAR_ALONE * best
        is_asked_for = own is not None and own.is_in_time and own.words >= most_words
        if is_answered and (scores[key] >= near or is_alone or is_asked_for):
            found[key] = Standing.STRONG
        elif place < MOST_WEAK and scores[key] >= _NEAR_WEAK * best and own is not None and not own.is_foreign:
            found[key] = Standing.WEAK
    return found


def showing(found: Iterable[Standing | None], shown: Shown) -> Shown:
    """Return what is shown of memories that stand so: what is weak only where nothing is strong."""
    return Shown.STRONG if shown is Shown.WEAK and Standing.STRONG in found else shown


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
    it. The share is squared: beside names, the time is seldom that at which the answer was written down, unless it is
    counted from now ("last Thursday").
    ``candidates`` are the first of the ranking without the time.
    """
    timed = [_with_time(each, asked) for each in part_sentences(question)]
    timed = [weights for weights in timed if _TIME in weights]
    share = max((_NAMED / sum(weights.values()) for weights in timed), default=_LITTLE)
    rest = [{forms: weight for forms, weight in weights.items() if forms != _TIME} for weights in timed]
    answered = max(_LEAST_ANSWERED, best_of(_evidence_of(rest, candidates[:MOST_JUDGED], noise=noise)))
    if asked.is_past:
        return share / answered
    return share**2 * max(_LEAST_ODDS, 1.0 - answered) / answered


def _with_time(sentence: str, asked: AskedRange) -> Mapping[_Forms, float]:
    """Return the weights of a sentence with one for the range instead of its words, if the sentence has these.

    Short words are left out beside it: in languages without a list of stop words here they are such, mostly. So is
    "happened": it asks for whatever was then.
    """
    weights, (named, _) = _weights(sentence), _tokenizer.both_terms(" ".join(asked.words))
    if not named or not set(named).issubset(_tokenizer.terms(sentence)):
        return weights
    idle = frozenset(_tokenizer.terms(" ".join(event_words(sentence))))
    telling = {
        forms: weight
        for forms, weight in weights.items()
        if forms[0] not in idle
        and not is_part(forms[0], named)
        and (weight == _NAMED or not _SHORT.fullmatch(forms[0]))
    }
    return {**telling, _TIME: _NAMED}


@lru_cache(maxsize=QUESTIONS_KEPT)
def _weights(question: str) -> Mapping[_Forms, float]:
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


def words_found(question: str, candidate: Candidate) -> tuple[str, ...]:
    """Return the telling words of a question that a memory has, as the question writes them, without case."""
    terms, words = candidate.terms, dict.fromkeys(_tokenizer.words(question))
    return tuple(word for word in words if not terms.isdisjoint(_tokenizer.query_terms(word)))


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
