"""Spelling: the words of a question that no memory has, and the words of memories that these may be meant to be.

A misspelling has a letter in another place, or of a long word one left out, added or wrong; never the first, which
people seldom get wrong. Names are left as they are: another name is another person.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from string import ascii_lowercase

from memcore.embedding.bm25 import QUESTIONS_KEPT, Tokenizer, fold, spaced

#: A word that may be misspelled, in small letters and no part of a path, an address or an identifier. Shorter ones are
#: too near to others.
_WORD = re.compile(r"(?<![\w/.@#&:-])[^\W\d_]{5,20}(?![\w/@#&-])")

#: Letters from which on a word is far enough from others that one letter may be wrong; in a shorter one that is mostly
#: another word, as "contact" and "contract" are, and only the order of its letters is.
_LONG = 8

#: Texts of which one may have enough of a question's words.
_FIRST = 3

#: Words of a question that are looked up at most, the longest: in a long turn many are in no memory.
_MOST_WORDS = 2


def doubtful(question: str, texts: Sequence[str], *, tokenizer: Tokenizer) -> tuple[list[str], float]:
    """Return the words of a question that may be misspelled, folded, and the share of its words that one text has.

    None of the texts that its words found has such a word; stop words and words with capital letters are none. Where
    one of the first texts has half of the telling words, the question is understood as it is.
    """
    words = [*dict.fromkeys(map(fold, filter(str.islower, _WORD.findall(question))))]
    if not words:
        return [], 1.0
    telling = [forms[0] for forms in tokenizer.query_forms(question)]
    most = max((sum(stem in text for stem in telling) for text in map(fold, texts[:_FIRST])), default=0)
    if 2 * most >= len(telling):
        return [], 1.0
    stems = dict(zip(words, tokenizer.stems(words), strict=True))
    every = "\n".join(map(fold, texts))
    missing = [word for word in words if stems[word] in telling and stems[word] not in every]
    return sorted(missing, key=len, reverse=True)[:_MOST_WORDS], most / len(telling)


# A search asks for those of its doubtful words up to three times.
@lru_cache(maxsize=_MOST_WORDS * QUESTIONS_KEPT)
def spellings(word: str) -> frozenset[str]:
    """Return every word that this one may be a misspelling of, and itself."""
    found, letters = {word}, sorted({*ascii_lowercase, *word}) if len(word) >= _LONG else []
    for at in range(1, len(word) + 1):
        head, tail = word[:at], word[at:]
        found.update(head + letter + tail for letter in letters)
        if tail:
            rest = head + tail[1:]
            found.update(rest[:to] + tail[0] + rest[to:] for to in range(1, len(word)))
            found.update(head + letter + tail[1:] for letter in ("", *letters) if letters)
    return frozenset(found)


def respelled(question: str, words: Collection[str], texts: Sequence[str]) -> str:
    """Return the question with each of these words as most of the texts spell it; as it is where one has the word.

    A plural's "s" may be there or not.
    """
    every = spaced("\n".join(["", *map(fold, texts)]))
    # Most words are in no text, which shows in a fifth of the time that it takes to part all texts into words.
    words = [word for word in words if _may_be_said(word, every)]
    if not words:
        return question
    # The first letter is never wrong.
    begins = tuple({word[0] for word in words})
    said = Counter(word for text in texts for word in dict.fromkeys(Tokenizer.words(text)) if word.startswith(begins))
    for word in words:
        spelled = spellings(word)
        meant = [other for other in said if not spelled.isdisjoint(_plurals(other))]
        if meant and not any(word in _plurals(other) for other in meant):
            # Of words as frequent the first: the texts are the best first.
            best = max(meant, key=said.__getitem__)
            # Words are letters alone: nothing in them is read as a pattern.
            question = re.sub(rf"\b{word}\b", best, question)
    return question


def _may_be_said(word: str, every: str) -> bool:
    """Return whether spaced texts may spell a word somehow; of a word beyond ASCII they do not show it."""
    if not word.isascii():
        return True
    said = frozenset(re.findall(f" ({word[0]}[a-z0-9]*)", every))
    return any(not spellings(word).isdisjoint(_plurals(other)) for other in said)


def _plurals(word: str) -> tuple[str, ...]:
    return word, f"{word}s", word.removesuffix("s")
