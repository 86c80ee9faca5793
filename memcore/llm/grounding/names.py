"""Names and identifiers in texts: what has a capital letter, and what no sentence says."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memcore.embedding.bm25 import fold
from memcore.embedding.languages import LONE_LETTERS
from memcore.embedding.static import common_words

#: Letters of the longest word whose parts are looked at, and most parts of an identifier.
LONGEST_COMPOUND = 40

#: Letters of the shortest word of which an ending may be taken off.
_LEAST_STEM = 3


@dataclass(frozen=True, slots=True)
class Capital:
    """A word with a capital letter: whether it begins a sentence, and the word before it, folded."""

    word: str
    is_first: bool
    before: str


#: Beside a word they are parts of an identifier with it.
_DIGITS = tuple("0123456789_")

_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_BEGINS = re.compile(r"[.!?:;\u2026\u3002\n*\u2022\"\u201c\u201e\u00ab\u00bf\u00a1(\[]|^\s*-|\s-\s")


def capitals(plain: str) -> Iterator[Capital]:
    """Yield the words of a text that begin with a capital letter, but for those inside of identifiers."""
    end, before = 0, ""
    for found in _TOKEN.finditer(plain):
        word = found[0].removesuffix("'s").partition("'")
        # "l'Adobe" and "O'Brien": what follows a short word and an apostrophe is the name.
        bare = word[2] if word[2][:1].isupper() else word[0]
        gap = plain[end : found.start()]
        is_part = gap.endswith(_DIGITS) or plain[found.end() : found.end() + 1] in _DIGITS or _is_inside(gap)
        if bare[:1].isupper() and len(bare) > 1 and not is_part:
            yield Capital(bare, is_first=not before or _BEGINS.search(gap) is not None, before=before)
        end, before = found.end(), fold(found[0])


def _is_inside(gap: str) -> bool:
    """Whether a word goes on inside an identifier."""
    return bool(gap) and not gap[-1].isspace() and gap[-1] in "/\\._@=#&"


def is_common(word: str) -> bool:
    """Whether a word is one of a language, in one of its forms; any is where no list of them is installed."""
    known = common_words()
    forms = [word, *(word.removesuffix(ending) for ending in _ENDINGS if len(word) - len(ending) >= _LEAST_STEM)]
    return not known or any(form in known or f"{form}e" in known for form in forms)


#: Endings without which a word may stand in the list of common ones.
_ENDINGS = ("s", "es", "d", "ed", "ing", "n", "en", "er", "r", "ly", "ar", "ir")

GERMAN_ARTICLES = frozenset(
    """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner im am zum zur beim vom ins
    ans mein meine dein deine ihr ihre ihrem ihren ihrer sein seine seinem seinen seiner unser unsere dieser diese
    dieses diesem diesen jeder jede jedes jedem jeden alle
    """.split()  # noqa: SIM905  # a list of one word a line would be unreadable
)
GERMAN_NOUN = re.compile(r"(?:ung|heit|keit|schaft|tion|tat|nis|ment|erin|innen|ungen|ling|tum|ur|ik|ei)(?:e?n|s)?$")

#: Stand around an identifier and are no part of it.
_AROUND_LEFT, _AROUND_RIGHT = "\"'`([{<*\u201c\u201e\u00ab\u300c", "\"'`)]}>*.,;:!?\u201d\u201c\u00bb\u300d\u3002\uff0c"

JOINS = re.compile(r"[/:,;|()\[\]{}\"'`+&\u3001\u3002\uff0c\uff1a]+|->")


def stripped(chunk: str) -> str:
    """Return a chunk without the marks around it."""
    word = chunk.strip(_AROUND_LEFT + _AROUND_RIGHT)
    return word.removesuffix("'s")


_WORDLIKE = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_FIGURE = re.compile(
    r"[-+~\u2248<>]?[$\u20ac\u00a3\u00a5]?\d[\d.,:'/-]*(?:e[-+]?\d+)?(?:[%\u2030$\u20ac\u00a3\u00a5\u00b0]|[^\W\d_]{1,4})?\.?"
)
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_INNER_DOT = re.compile(r"[^\W_]\.[^\W\d_]")
_UNSPACED = re.compile(f"[{LONE_LETTERS}]")


def is_plain(word: str) -> bool:
    """Whether a chunk is a word or a number like any other, which are looked at as such."""
    if _UNSPACED.search(word):
        # Without spaces nobody knows where an identifier begins; its letters and digits are looked at.
        return True
    if _WORDLIKE.fullmatch(word):
        return _INNER_CAPITAL.search(word) is None
    if _FIGURE.fullmatch(word) and not (_VERSION.fullmatch(word) and not _DAY.fullmatch(word)):
        return True
    return not (any(map(str.isalnum, word)) and _is_telling(word))


_DAY = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}")
_VERSION = re.compile(r"v?\d+(?:\.\d+){2,}")


def _is_telling(word: str) -> bool:
    has_letter, has_digit = any(map(str.isalpha, word)), any(map(str.isdigit, word))
    return (
        (has_letter and has_digit)
        or any(mark in word for mark in "/\\_@=#:(+&")
        or word.startswith("-")
        or _INNER_CAPITAL.search(word) is not None
        or _INNER_DOT.search(word) is not None
        or _VERSION.fullmatch(word) is not None
    )


def is_place(word: str) -> bool:
    """Whether a chunk is an address, a path, a flag or a setting, which stands as a whole or not at all."""
    return "://" in word or "@" in word or "=" in word or word.startswith(("/", "~", "./", "--"))


def identifier_forms(chunk: str) -> Iterator[str]:
    """Yield what a chunk of a source may be called: it, its parts, and the beginnings of an address or a path."""
    word = stripped(chunk)
    folded = fold(word)
    if not folded:
        return
    yield folded
    yield fold(chunk)
    parts = [part for part in re.split(r"[/:,;|()\[\]{}\"'`=+&@]+|->", folded) if part]
    if len(parts) > 1 and len(parts) <= LONGEST_COMPOUND:
        yield from parts
        # "parseInvoice()" without its brackets, "ops@example.org" and "10.2.0.15:8080" with them.
        yield from (folded.rstrip("()"), folded.partition("://")[2], folded.rstrip("/"))
        for mark in "/:(=":
            head, _, rest = folded.rpartition(mark)
            yield from (head, rest)


def without_places(plain: str) -> str:
    """Return a text without its addresses and paths, whose digits are no numbers."""
    return " ".join(chunk if not is_place(stripped(chunk)) else "." for chunk in plain.split(" "))
