"""Words whose exact form tells: "O+", "-20", "C#", "getUser", "README.md", "/data/A", "5 Mb".

Search finds such a word by its bare letters too, in any case; the exact form is a further term of it.
"""

import re
import unicodedata
from functools import lru_cache

from memcore.embedding.languages import INNER_MARKS, LONE_LETTERS

#: What stands between spaces, but for what joins or quotes words without spaces, and halves of surrogate pairs.
_CHUNK = re.compile(f"[^\\s{LONE_LETTERS}\ud800-\udfff\u2014\u2026\u201c-\u201f\u00ab\u00bb\u3001\u3002\u300c-\u3011]+")

#: Dashes and apostrophes, as they are typed.
_TYPED = {**dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"), **dict.fromkeys("\u2018\u2019", "'")}

#: Stand around a word and are no part of it.
_OPENING, _CLOSING = "\"'`([{\u00bf\u00a1", "\"'`)]}.,;:!?"

#: Words of letters alone; apostrophes and hyphens join them and say nothing, underscores join those of names.
_PLAIN = re.compile(f"(?!\\d)\\w(?:(?!\\d)[\\w{INNER_MARKS}]|['-](?=[^\\W\\d]))*")

#: The number of "v2.1", "-20°C", "5mg" and "2026-03-01".
_NUMBER = re.compile(r"[vV]?([-+]?\d+(?:[.,:]\d+)*)")

#: What joins to a plain word.
_JOINED = re.compile(r"[^\W\d_]+")

#: Words of one capital letter that are no symbol.
_CAPITAL_WORDS = frozenset("AI")

#: Most letters of a unit that begins with a capital one, as Mb: of three, Mar is a month.
_UNIT = 2

#: Most characters of a sign that stands alone, as "===".
_SIGN = 3

#: Chunks of texts of which is kept what they tell, 6 MB when full, and the length from which on none are.
_CHUNKS_KEPT, _LONG = 32_768, 40

#: Say something that stand alone, beside currencies and operators; drawn lines that say nothing.
_PERCENT, _LINES = "%\u2030", "|~"


def exact_words(text: str) -> list[str]:
    """Return the words of a text whose exact form tells, in order, without what stands around them.

    These are words with a sign, a digit or a capital letter behind their first one, symbols of one capital letter,
    units behind a number, and signs that stand alone. In a text without small letters case says nothing.
    """
    typed = text if text.isascii() else _typed(unicodedata.normalize("NFKC", text))
    is_shouted, is_behind_number = typed.isupper(), False
    found: list[str] = []
    chunks = typed.split() if typed.isascii() else _CHUNK.findall(typed)
    has_long = max(map(len, chunks), default=0) >= _LONG
    plain = (len(chunk) < _LONG and _is_plain(chunk) for chunk in chunks) if has_long else map(_is_plain, chunks)
    for chunk, is_plain in zip(chunks, plain, strict=True):
        # Most words are plain: this is all that they cost.
        if is_plain and not is_behind_number:
            continue
        read = _read if len(chunk) < _LONG else _read.__wrapped__
        words, is_behind_number = read(chunk, is_shouted=is_shouted, is_behind_number=is_behind_number)
        found += words
    return found


def _typed(text: str) -> str:
    # A table for all at once would be looked into for every character.
    for mark, typed in _TYPED.items():
        text = text.replace(mark, typed)
    return text


@lru_cache(maxsize=_CHUNKS_KEPT)
def _is_plain(chunk: str) -> bool:
    """Return whether it is a word in small letters, but for the first, with what may stand around a word."""
    word = _without_marks_around(chunk)
    return word.isalpha() and (word[1:] or word).islower()


@lru_cache(maxsize=_CHUNKS_KEPT)
def _read(chunk: str, *, is_shouted: bool, is_behind_number: bool) -> tuple[tuple[str, ...], bool]:
    """Return the words of a chunk whose exact form tells, and whether it ends with a number."""
    found: list[str] = []
    word = _without_marks_around(chunk)
    if not any(map(str.isalnum, word)):
        found += [sign for sign in (chunk.rstrip(".,;:!?"),) if _is_sign(sign)]
    elif not word.isalpha() and not _PLAIN.fullmatch(word):
        found.append(word)
        found += [part for part in _JOINED.findall(word) if _has_case(part) and not part.isupper()]
        if (number := _NUMBER.match(word)) and number[1] != word:
            found.append(number[1])
    elif "_" in word.strip("_") or (not is_shouted and (_has_case(word) or (is_behind_number and _is_unit(word)))):
        found.append(word)
    return tuple(found), word[-1:].isdigit()


def is_in_usual_case(word: str) -> bool:
    """Return whether a word of no sign is written in capital letters alone, or with some at the beginning of parts."""
    has_no_sign = word.isalnum() or _PLAIN.fullmatch(word) is not None
    return has_no_sign and ((len(word) > 1 and word.isupper()) or ("_" in word and word.istitle()))


def _without_marks_around(chunk: str) -> str:
    word = chunk.lstrip(_OPENING).rstrip(_CLOSING).removesuffix("'s")
    for mark in "*~":  # of emphasis
        word = word.strip(mark) if word.startswith(mark) and word.endswith(mark) else word
    return word


def _has_case(word: str) -> bool:
    if len(word) == 1:
        return word.isascii() and word.isupper() and word not in _CAPITAL_WORDS
    return any(part[1:] != part[1:].lower() for part in _JOINED.findall(word))


def _is_unit(word: str) -> bool:
    return len(word) <= _UNIT and word != word.lower()


def _is_sign(chunk: str) -> bool:
    if len(chunk) > 1 and chunk[0] == chunk[-1] and chunk[0] in "\"'`":
        return len(chunk) <= _SIGN + 2
    says = (unicodedata.category(mark) in {"Sm", "Sc"} or mark in _PERCENT for mark in chunk if mark not in _LINES)
    return len(chunk) <= _SIGN and any(says)
