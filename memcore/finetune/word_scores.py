"""BM25 of questions over passages, in this process: the words' side of a fused ranking."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memcore.embedding.tokenizer import Tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The usual values (Robertson and Zaragoza 2009).
_K1 = 1.2
_B = 0.75


class WordScores:
    """Score passages by the words that they share with a question.

    Args:
        texts: the passages.
        tokenizer: how texts become terms; the product's own by default.
    """

    def __init__(self, texts: Sequence[str], *, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer or Tokenizer()
        self._texts = len(texts)
        counts = [Counter(self._tokenizer.terms(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], dtype=np.float32)
        mean = float(lengths.mean()) or 1.0
        rows: dict[str, list[int]] = defaultdict(list)
        values: dict[str, list[float]] = defaultdict(list)
        for row, count in enumerate(counts):
            norm = _K1 * (1.0 - _B + _B * float(lengths[row]) / mean)
            for term, times in count.items():
                rows[term].append(row)
                values[term].append(times * (_K1 + 1.0) / (times + norm))
        self._postings = {
            term: (np.array(where, dtype=np.int64), np.array(values[term], dtype=np.float32) * self._rarity(len(where)))
            for term, where in rows.items()
        }

    def scores(self, queries: Sequence[str]) -> "NDArray[np.float32]":
        """Return a row for each question and a column for each passage."""
        found = np.zeros((len(queries), self._texts), dtype=np.float32)
        for row, query in enumerate(queries):
            for term in set(self._tokenizer.terms(query)):
                posting = self._postings.get(term)
                if posting is not None:
                    found[row, posting[0]] += posting[1]
        return found

    def _rarity(self, texts_with: int) -> np.float32:
        return np.float32(math.log(1.0 + (self._texts - texts_with + 0.5) / (texts_with + 0.5)))
