"""The same rankings by a few lines of numpy, without the product's store, search and fusion.

Shared with the product: the embedder, which words a text has and what they weigh in a question, what a question says of
time (the range and its weight), and which of equal candidates the store kept where it cuts. Everything else is written
here a second time.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from memcore.backends.evidence import Candidate, weight_of_time
from memcore.backends.when import AskedRange, asked_range, subject_of
from memcore.embedding.bm25 import Tokenizer, bare
from memcore.embedding.calibration import noise_of
from memcore.embedding.protocol import Embedder
from memcore.evaluation.published import Turn
from memcore.finetune.evaluate import DEPTH

#: BM25's constants and the candidates of each list, as the documentation names them.
_K1, _B, _AVERAGE, _CANDIDATES = 0.5, 0.4, 64.0, 50

#: Candidates by meaning where a turn's words need no such list, and turns among which the newer comes first.
_FIRST = 20

#: How alike two turns are of which the newer comes first, and how near its score is.
_ALIKE, _NEAR = 0.4, 0.9

#: RRF's constant.
_RRF_K = 60

#: Shares of what stands beside a turn, and of a question before it; factors of a named speaker, and of a long text.
_BESIDE, _ANSWER, _NAMED, _LONG, _LONG_BYTES = 0.1, 0.3, 1.2, 0.2, 240

#: Most bytes of an answer, and of a text whose length counts.
_ANSWER_BYTES, _MOST_BYTES = 400, 1_000

_Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Words:
    """How often each word occurs in each text of a collection, how many words that has, and in how many texts."""

    counts: list[Counter[str]]
    lengths: list[int]
    spread: Counter[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Words":
        tokenizer = Tokenizer()
        counts = [Counter(tokenizer.terms(text)) for text in texts]
        lengths = [len(tokenizer.both_terms(text)[0]) for text in texts]
        return cls(counts, lengths, Counter(word for each in counts for word in each))


class ByHand:
    """Rank one agent's texts.

    Args:
        turns: the agent's, in order.
        embedder: the one under measurement.
    """

    def __init__(self, turns: Sequence[Turn], embedder: Embedder) -> None:
        self._turns = turns
        texts = [turn.stored_text for turn in turns]
        self._own = Words.of(texts)
        self._vectors = embedder.embed_documents(texts).astype(np.float64)
        self._noise = noise_of(embedder)

    def rankings(
        self,
        question: str,
        vector: NDArray[np.float32],
        *,
        dense_weight: float,
        has_all_words: bool,
        kept: Collection[str] = (),
        everybody: Words | None = None,
    ) -> dict[str, list[int]]:
        """Return the first ten places of each method, best first.

        Args:
            question: its text.
            vector: its vector.
            dense_weight: share of the vectors.
            has_all_words: whether words count of what only the vectors found.
            kept: names of turns that stay, among equals, where a list is cut.
            everybody: the words over which rarity is counted; None counts over the agent's own.
        """
        cosines = self._vectors @ vector.astype(np.float64)
        few = _CANDIDATES if has_all_words else _FIRST
        asked, subject = self._asked(question), self.subject(question)
        words = self._bm25(subject, everybody or self._own)
        stays = np.array([turn.name in kept for turn in self._turns])
        near, closest = _cut(cosines, _CANDIDATES, stays), _cut(cosines, few, stays)
        worded = _cut(words, _CANDIDATES, stays)
        if asked is not None:
            # What is of the asked time is a candidate of its own.
            outside = np.array([not asked.start <= turn.at < asked.end for turn in self._turns])
            there = len(outside) - int(outside.sum())
            within, said = (np.where(outside, -np.inf, scores) for scores in (cosines, words))
            near = _joined(cosines, near, _cut(within, min(there, _CANDIDATES), stays))
            closest = _joined(cosines, closest, _cut(within, min(there, few), stays))
            worded = _joined(words, worded, _cut(said, min(there, _CANDIDATES), stays))
        worded = [at for at in worded if words[at] > 0.0]
        fused = np.full(len(cosines), -np.inf)
        for at in {*closest, *worded}:
            bm25 = words[at] / words[worded[0]] if worded and (has_all_words or at in worded) else 0.0
            share = dense_weight if worded else 1.0
            fused[at] = share * max(0.0, cosines[at]) / cosines[near[0]] + (1.0 - share) * bm25
        fused = self._in_context(subject, fused)
        fused = self._newer_first(question, fused) if asked is None else self._in_time(question, fused, cosines, asked)
        alone = np.full(len(cosines), -np.inf)
        alone[near] = np.clip(cosines[near], 0.0, 1.0)
        if asked is not None:
            alone = self._in_time(question, alone, cosines, asked)
        ranks = np.zeros(len(cosines))
        for ranked in (near, worded):
            ranks[ranked] += 1.0 / (_RRF_K + 1 + np.arange(len(ranked)))
        return {
            "bm25": worded[:DEPTH],
            "dense": _first(alone, DEPTH),
            "rrf": _first(ranks, DEPTH),
            "weighted": _first(fused, DEPTH),
        }

    def subject(self, question: str) -> str:
        """Return a question without the time that it asks for, where a turn is of that time."""
        return subject_of(question, self._asked(question))

    def _asked(self, question: str) -> AskedRange | None:
        asked = asked_range(question, datetime.now(UTC))
        if asked is not None and not any(asked.start <= turn.at < asked.end for turn in self._turns):
            return replace(asked, rest=None)
        return asked

    def _in_context(self, question: str, fused: _Numbers) -> _Numbers:
        """Add what was said before and after, and weigh speakers and lengths; what is no candidate adds nothing."""
        there, known = np.isfinite(fused), np.where(np.isfinite(fused), fused, 0.0)
        names = re.findall(r"\w+", question.lower())
        found = fused.copy()
        for at in np.flatnonzero(there).tolist():
            turn, size = self._turns[at], len(self._turns[at].stored_text.encode())
            for other in (at - 1, at + 1):
                if 0 <= other < len(self._turns) and self._turns[other].session_id == turn.session_id:
                    is_asked = other < at and self._turns[other].stored_text.endswith("?")
                    found[at] += (_BESIDE + _ANSWER * (is_asked and size <= _ANSWER_BYTES)) * known[other]
            if set(re.findall(r"\w+", turn.speaker.lower())) <= set(names):
                found[at] *= _NAMED
            if size <= _MOST_BYTES:
                found[at] *= 1.0 + _LONG * min(1.0, size / _LONG_BYTES)
        return found

    def _in_time(self, question: str, fused: _Numbers, cosines: _Numbers, asked: AskedRange) -> _Numbers:
        """Add what turns gain that were said in the asked time, and half of it where soon after."""
        judged = [
            Candidate(text=self._turns[at].stored_text, cosine=float(cosines[at]))
            for at in _first(fused, _FIRST)
            if np.isfinite(fused[at])
        ]
        gain = weight_of_time(question, asked, judged, noise=self._noise) * float(fused.max())
        near: _Numbers = np.array([asked.nearness_of(turn.at, turn.at) for turn in self._turns])
        known: _Numbers = np.where(np.isfinite(fused), fused, 0.0)
        own = np.where(near < 1.0, asked.soon_gain, asked.gain)
        return fused + (gain + own * known) * near

    def _newer_first(self, question: str, fused: _Numbers) -> _Numbers:
        """Give the newer of two turns that say nearly the same of the question the score of the older."""
        asked, found = set(Tokenizer().query_terms(question)), fused.copy()
        first = [at for at in _first(fused, _FIRST) if np.isfinite(fused[at])]
        for older, newer in ((one, other) for place, one in enumerate(first) for other in first[place + 1 :]):
            ours, theirs = set(self._own.counts[older]), set(self._own.counts[newer])
            words, others = bare(ours), bare(theirs)
            is_alike = 2 * len(words & others) >= _ALIKE * (len(words) + len(others))
            is_same = bool(ours & asked) and ours & asked == theirs & asked and fused[newer] >= _NEAR * fused[older]
            if self._turns[newer].at > self._turns[older].at and is_same and is_alike:
                found[newer] = max(found[newer], found[older])
        return found

    def _bm25(self, question: str, rarity_of: Words) -> _Numbers:
        scores, number = np.zeros(len(self._own.counts)), len(rarity_of.counts)
        for word, weight in Tokenizer().query_weights(question).items():
            spread = rarity_of.spread[word]
            rarity = weight * math.log(1.0 + (number - spread + 0.5) / (spread + 0.5))
            for at, (counts, size) in enumerate(zip(self._own.counts, self._own.lengths, strict=True)):
                if count := counts[word]:
                    length = 1.0 - _B + _B * size / _AVERAGE
                    scores[at] += rarity * count * (_K1 + 1.0) / (count + _K1 * length)
        return scores


def _joined(scores: _Numbers, some: Sequence[int], others: Sequence[int]) -> list[int]:
    return sorted({*some, *others}, key=lambda at: (-scores[at], -at))


def _cut(scores: _Numbers, number: int, stays: NDArray[np.bool_]) -> list[int]:
    chosen = np.lexsort((~stays, -scores))[:number].tolist()
    return _joined(scores, chosen, ())


def _first(scores: _Numbers, number: int) -> list[int]:
    # Of equals the newest first, as the product has it.
    return [len(scores) - 1 - int(at) for at in np.argsort(-scores[::-1], kind="stable")[:number]]
