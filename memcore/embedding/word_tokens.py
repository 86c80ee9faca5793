"""The tokens of a text, put together from those of its words, which are remembered: most words come again."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from tokenizers import Tokenizer

#: Words remembered; about 8 MB when full, and then they are forgotten together. A language's daily words fit twice.
_KEPT_WORDS = 32_768

#: Longest word remembered, in characters: longer ones are addresses and hashes, which rarely come again.
_LONGEST_WORD = 40


class WordTokens:
    """Read texts with a SentencePiece tokenizer, word by word: the tokens of the whole text at a third of the CPU.

    It holds because no token of the vocabulary reaches from one word into the next, which the tests check; a text in
    which single spaces are not all that parts its words is read whole. Safe in several threads at once.

    Args:
        tokenizer: without padding and truncation.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        cut = [[text] if _is_whole(text) else text.split(" ") for text in texts]
        # One dict for the whole call: another thread may put a new one in its place meanwhile.
        known = self._known
        read = self._read(set(chain.from_iterable(cut)).difference(known))
        found = [
            list(chain.from_iterable([known[word] if word in known else read[word] for word in words])) for words in cut
        ]
        self._keep(read)
        return found

    def _read(self, words: AbstractSet[str]) -> dict[str, tuple[int, ...]]:
        if not words:
            return {}
        encodings = self._tokenizer.encode_batch_fast(list(words), add_special_tokens=False)
        return {word: tuple(encoding.ids) for word, encoding in zip(words, encodings, strict=True)}

    def _keep(self, read: dict[str, tuple[int, ...]]) -> None:
        short = {word: ids for word, ids in read.items() if len(word) <= _LONGEST_WORD}
        if len(self._known) + len(short) <= _KEPT_WORDS:
            self._known.update(short)
        else:
            self._known = short if len(short) <= _KEPT_WORDS else {}


def _is_whole(text: str) -> bool:
    # A special token may begin, the tokenizer's own sign for a space may stand there, or other than single spaces.
    return "<" in text or "▁" in text or "  " in text or text.startswith(" ") or text.endswith(" ") or not text
