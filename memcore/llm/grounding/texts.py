"""Words of texts as they are compared: plain, without function words, stemmed; pairs where there are no spaces."""

import html
import re
import unicodedata
from functools import cache

from memcore.embedding.bm25 import Tokenizer, fold
from memcore.embedding.languages import (
    ENGLISH_STOP_WORDS,
    LONE_LETTERS,
    Stems,
    is_function_word,
    pairs,
    telling,
    without_accents,
)
from memcore.llm.grounding.names import without_places
from memcore.llm.grounding.words import BESIDE_NEGATIONS, MONTHS, NEGATIONS, NUMBER_WORDS, REFERENTS, UNITS, WEEKDAYS

#: Letters of the shortest content word.
_LEAST_LETTERS = 2

#: Letters of the longest function word of scripts whose languages have no list of them here.
SHORT_LETTERS = 3

#: The mark of a list's item, which is no number of the text.
_LISTED = re.compile(r"^[ \t]{0,8}\d{1,2}[.)][ \t]", re.MULTILINE)

_UNSEEN = re.compile("[\u200b-\u200f\u2028-\u202e\u2060\ufeff]")

_TYPED = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-") | dict.fromkeys("\u2018\u2019\u02bc", "'"))


def plain_of(text: str) -> str:
    """Return a text as people type it: fences show "<" as "&lt;", and models copy that."""
    unescaped = html.unescape(_UNSEEN.sub("", text))
    return _LISTED.sub("", unicodedata.normalize("NFKC", unescaped).translate(_TYPED))


def words_of(text: str) -> list[str]:
    """Return every word, folded, in order."""
    return Tokenizer.words(text)


@cache
def stemmers() -> Stems:
    """Return the stemmers, which keep what they made."""
    return Stems()


def stems_of(word: str, language: str | None) -> set[str]:
    """Return the stems of a word: in English, in the language of its text, and in that of its script."""
    stems = stemmers()
    found = {stems.of(word, "english"), stems.of(word, language or "english")}
    if is_cyrillic(word):
        found.add(stems.of(word, "russian"))
    elif _ARABIC.match(word) and len(root := _NO_ROOT.sub("", word.removeprefix("\u0627\u0644"))) >= SHORT_LETTERS:
        found.add(root)
    return found


_ARABIC = re.compile("[\u0621-\u064a]")

#: Letters that the forms of an Arabic word differ in: alifs, waw, ya, hamza and ta marbuta.
_NO_ROOT = re.compile("[\u0621-\u0623\u0625\u0627\u0629\u0648-\u064a]")


def is_cyrillic(word: str) -> bool:
    """Return whether a word is written in Cyrillic letters."""
    return "\u0400" <= word[0] <= "\u04ff"


def is_idle(word: str, language: str | None) -> bool:
    """Return whether a word is a function word, which says nothing itself."""
    if word in ENGLISH_STOP_WORDS or (language is not None and is_function_word(word, language)):
        return True
    return word[0] > "\u036f" and len(word) <= SHORT_LETTERS


_LONE = re.compile(f"[{LONE_LETTERS}]")


def content(text: str, language: str | None) -> list[str]:
    """Return the words that say something; numbers and scripts without spaces are looked at elsewhere."""
    return [
        word
        for word in words_of(without_places(text))
        if len(word) >= _LEAST_LETTERS
        and not any(map(str.isdigit, word))
        and not _LONE.match(word)
        and not is_idle(word, language)
        and without_accents(word) not in _PASSED_OVER
    ]


_PASSED_OVER = frozenset().union(
    REFERENTS, BESIDE_NEGATIONS, MONTHS, WEEKDAYS, UNITS, *NEGATIONS.values(), *NUMBER_WORDS.values()
)


_SPELLING_LETTERS = re.compile("[\u3041-\u309f]")


def telling_pairs(text: str) -> list[str]:
    """Return the pairs of characters that say something, of scripts without spaces."""
    folded = fold(text)
    found: list[tuple[str, ...]] = [(pair,) for pair in pairs(folded) if not _SPELLING_LETTERS.search(pair)]
    return [each[0] for each in telling(found, folded)] if found else []
