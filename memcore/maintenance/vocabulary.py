"""Which words are rare among an agent's memories: those that tell one memory from the others."""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

from memcore.embedding.tokenizer import Tokenizer

#: Added to a word's texts: without it a word of none would be infinitely rare.
_SMOOTHING = 0.5


class Vocabulary:
    """Count in how many texts each term stands.

    Args:
        tokenizer: how texts become terms; terms of another tokenizer would all look rare.
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer or Tokenizer()
        self._texts_with = Counter[str]()
        self._texts = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been counted, so that every term is as rare as any other."""
        return self._texts == 0

    def read(self, texts: Iterable[str]) -> None:
        """Count the terms of the texts."""
        for text in texts:
            self._texts += 1
            self._texts_with.update(set(self._tokenizer.terms(text)))

    def terms(self, text: str) -> Sequence[str]:
        """Return the terms of a text, as they are counted."""
        return self._tokenizer.terms(text)

    def rarity(self, term: str) -> float:
        """Return how much a term tells, above 0: the logarithm of the texts to those that have it (idf)."""
        return math.log((self._texts + 1.0) / (min(self._texts_with[term], self._texts) + _SMOOTHING))


#: The words of an agent's memories, by the agent's id.
VocabularyOf = Callable[[str], Awaitable[Vocabulary]]


async def no_vocabulary(_agent_id: str) -> Vocabulary:
    """Return an empty one: nothing is known of the agent's other memories."""
    return Vocabulary()
