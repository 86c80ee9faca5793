"""The words of a passage that tell it from the others, and the names in it."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[^\W\d_][\w'-]*")

#: Shortest keyword, in characters.
_LETTERS = 3


class Keywords:
    """Count in how many passages each word stands, so that rare ones can be told.

    Args:
        texts: every passage once.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._passages_with = Counter[str]()
        self._passages = 0
        for text in texts:
            self._passages += 1
            self._passages_with.update({word.lower() for word in words_of(text)})

    def of(self, text: str, *, most: int) -> tuple[str, ...]:
        """Return the rarest words of a text, as they are written there, the most telling first.

        A word weighs as often as it stands in the text, times its rarity; equals stand in the order of the text.
        """
        written: dict[str, str] = {}
        counts = Counter[str]()
        for word in words_of(text):
            written.setdefault(word.lower(), word)
            counts[word.lower()] += 1
        order = {word: place for place, word in enumerate(written)}
        best = sorted(written, key=lambda word: (-counts[word] * self._rarity(word), order[word]))
        return tuple(written[word] for word in best[:most])

    def _rarity(self, word: str) -> float:
        return math.log((self._passages + 1) / (self._passages_with[word] + 0.5))


def words_of(text: str) -> Sequence[str]:
    """Return the words of a text that may be keywords, in order."""
    return [word for word in _WORD.findall(text) if len(word) >= _LETTERS]


def names_of(text: str) -> tuple[str, ...]:
    """Return what looks like names: words that begin with a capital where no sentence begins, and speakers."""
    names: dict[str, None] = {}
    for line in text.splitlines():
        speaker = re.match(r"(?:\[[^\]]*\]\s*)?([A-Z][\w'-]+):", line)
        if speaker is not None:
            names[speaker[1]] = None
        for found in re.finditer(r"(?<=[a-z,;] )([A-Z][a-z][\w'-]*)", line):
            names[found[1]] = None
    return tuple(names)
