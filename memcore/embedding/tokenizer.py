"""The one tokenizer: how a text becomes words, and words become terms, wherever memtend compares texts by words."""

import re
import threading
import unicodedata
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise

import Stemmer

from memcore.embedding.stop_words import ENGLISH_STOP_WORDS, QUESTION_FRAMES

#: Letters of scripts written without spaces, one word per character: CJK iteration mark and numerals, Hiragana,
#: Katakana, Han with its extensions, Hangul (spaced, but endings are glued to stems), Thai, Lao, Myanmar, Khmer.
_LONE_LETTERS = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003fffd\uac00-\ud7a3\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf"
    "\u1000-\u1049\u1050-\u109d\u1780-\u17d3\u17dc\u17e0-\u17e9"
)

#: Marks that stay inside a word although they are no word characters to `re`: combining accents, Hebrew and Arabic
#: points, the vowel signs of the Indic scripts, and the joiners between them. Without these, Hindi falls to pieces.
_INNER_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0670\u0900-\u0903\u093a-\u0963\u0971-\u0dff\u200c\u200d"

#: A lone letter, or a run of letters and digits with inner marks. The underscore joins the words of names: it splits.
_WORD = re.compile(f"[{_LONE_LETTERS}]|[^\\W_{_LONE_LETTERS}]+(?:[{_INNER_MARKS}]+[^\\W_{_LONE_LETTERS}]*)*")

#: The same words in folded ASCII text, found in less than half the time.
_ASCII_WORD = re.compile("[a-z0-9]+")

#: Stems kept, in words; about 4 MB when full. Half the words of a text are among the commonest few hundred.
_STEM_CACHE_SIZE = 32_768


def fold(text: str) -> str:
    """Return the text in the form in which texts are compared: compatibility characters unified, case removed."""
    if text.isascii():
        return text.lower()
    # Folding case can undo the composition ("ΐ" comes apart), so it is composed again.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


class Tokenizer:
    """Split texts into words and reduce words to terms; safe to call from several threads at once.

    Args:
        stop_words: folded words that never become terms.
        is_stemming: whether terms are English stems ("adopted" and "adoption" meet) or the words themselves.
    """

    def __init__(self, *, stop_words: AbstractSet[str] = ENGLISH_STOP_WORDS, is_stemming: bool = True) -> None:
        self._stop_words = frozenset(stop_words)
        self._stem = lru_cache(maxsize=_STEM_CACHE_SIZE)(_stemmer()) if is_stemming else None

    @staticmethod
    def words(text: str) -> list[str]:
        """Return every word, folded, in order: letters and digits of any script, unspaced scripts by character."""
        folded = fold(text)
        return (_ASCII_WORD if folded.isascii() else _WORD).findall(folded)

    def terms(self, text: str) -> list[str]:
        """Return the terms of a document in order: its words without stop words, stemmed; it may be empty."""
        return self._terms(self.words(text))

    def query_terms(self, text: str) -> list[str]:
        """Return the terms of a question in order: as for a document, less "kind of", "type of" and "sort of"."""
        words = self.words(text)
        is_frame = [word in QUESTION_FRAMES and after == "of" for word, after in pairwise([*words, ""])]
        return self._terms([word for word, is_idle in zip(words, is_frame, strict=True) if not is_idle])

    def _terms(self, words: list[str]) -> list[str]:
        kept = [word for word in words if word not in self._stop_words]
        return kept if self._stem is None else [self._stem(word) for word in kept]


def _stemmer() -> Callable[[str], str]:
    # The second argument turns the stemmer's own cache off: ours is bounded better, and one is enough.
    stemmer = Stemmer.Stemmer("english", 0)
    # One stemmer works in one buffer: two threads in it at once would mix their words.
    lock = threading.Lock()

    def stem(word: str) -> str:
        with lock:
            return str(stemmer.stemWord(word))

    return stem
