"""Holds what a model writes into memory against the texts that it was shown: what stands in none of them is not kept.

No model is asked, and the cost grows with the length of the texts alone. A text may use some words of its own; its
numbers, dates, names and identifiers, and whether a statement is denied, must be those of its sources, in any form.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum, auto
from functools import cache
from itertools import chain

from memcore.embedding.bm25 import Tokenizer, fold
from memcore.embedding.languages import (
    ENGLISH_STOP_WORDS,
    LONE_LETTERS,
    Stems,
    is_function_word,
    language_of,
    pairs,
    telling,
    without_accents,
)
from memcore.embedding.static import common_words
from memcore.llm.grounding_figures import Fault, Figures
from memcore.llm.grounding_words import (
    BESIDE_NEGATIONS,
    CHATTER,
    CJK_NEGATIONS,
    CLAUSE_JOINS,
    CONTRARY,
    MANNERS,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    REFERENTS,
    REFUSALS,
    REPORTING,
    TAKES_BACK,
    TAKES_BACK_WHOLE,
    UNITS,
    WEEKDAYS,
    WITHOUT,
)

#: Share of a sentence's content words that its sources need not have: summaries, lessons and rules have verbs of their
#: own. The same of pairs of characters in scripts without capital letters, where names look like other words.
OWN_WORDS, OWN_PAIRS = 0.5, 0.25

#: Words in a row that a text shares with the instructions and with no source: it repeats them.
_ECHO_WORDS = 6

#: Content words that two clauses share at least, and their share of the shorter one, to be about the same.
_SAME_WORDS, _SAME_SHARE = 2, 0.6

#: Clauses that are looked at for one word, or a long text would take the square of its length.
_MOST_CLAUSES = 100

#: Letters of a word's beginning by which two forms of it meet, and of a word within a compound.
_BEGINNING, _WITHIN = 5, 5

#: Letters of the shortest content word, and of the longest whose parts are looked at.
_LEAST_LETTERS, _LONGEST_COMPOUND = 2, 40

#: Letters of the longest function word of scripts whose languages have no list of them here.
_SHORT_LETTERS = 3


#: The same of a long sentence, beside one word.
_OWN_WORDS_OF_MANY = 1 / 3

#: The same of a whole text that says what to do the next time, made of little more than the names of tools.
OWN_WORDS_OF_ADVICE = 0.8


class Kind(Enum):
    """What a text is, which says how much of it its sources must have."""

    #: Says what its sources say.
    STATEMENT = auto()
    #: Asks for what they say: in other words, and it denies nothing.
    QUESTION = auto()
    #: Says what follows from them.
    ADVICE = auto()


def ungrounded(
    text: str,
    sources: Iterable[str],
    *,
    instructions: str = "",
    said_on: Iterable[date] = (),
    kind: Kind = Kind.STATEMENT,
) -> Fault | None:
    """Return why a text that a model wrote may not be kept, or None when its sources bear it out.

    Args:
        text: what the model wrote.
        sources: all texts that it may rest on.
        instructions: the prompt's own words, which are none of the text's.
        said_on: the days on which the sources were said: "last month" may have become a date.
        kind: what the text is.
    """
    return Grounds(sources, instructions=instructions, said_on=said_on).fault(text, kind=kind)


class Grounds:
    """The sources of several texts, read once; the arguments are those of ``ungrounded``."""

    def __init__(self, sources: Iterable[str], *, instructions: str = "", said_on: Iterable[date] = ()) -> None:
        texts = [_plain(text) for text in sources]
        self._count = len(texts)
        self._folded = "\n".join(map(fold, texts))
        self._figures = Figures(said_on=set(said_on))
        self._words, self._beginnings, self._pairs = set[str](), set[str](), set[str]()
        self._identifiers = set[str]()
        self._clauses: list[_Clause] = []
        self._by_word: dict[str, list[int]] = {}
        self._manners = set[int]()
        words = [_words(text) for text in texts]
        self._language = language_of([word for each in words for word in each])
        for text, every in zip(texts, words, strict=True):
            self._add(text, every)
        shown = _words(instructions)
        self._asked = _runs(shown) - {run for each in words for run in _runs(each)}

    def _add(self, text: str, words: Sequence[str]) -> None:
        self._figures.read(fold(text), languages=tuple(NUMBER_WORDS))
        for word in words:
            bare = without_accents(word)
            self._words |= {bare, *_stems_of(word, self._language)}
            self._beginnings |= {bare[:size] for size in range(_BEGINNING, min(len(bare), _LONGEST_COMPOUND) + 1)}
            self._manners |= MANNERS.get(bare, frozenset())
        self._pairs.update(pairs(fold(text)))
        for chunk in text.split():
            self._identifiers.update(_identifier_forms(chunk))
        for clause in _clauses(_without_questions(text), self._language):
            for word in clause.words:
                places = self._by_word.setdefault(word, [])
                if len(places) < _MOST_CLAUSES:
                    places.append(len(self._clauses))
            self._clauses.append(clause)

    def fault(self, text: str, *, kind: Kind = Kind.STATEMENT, own_words: float = OWN_WORDS) -> Fault | None:
        """Return why a text may not be kept, or None (see ``ungrounded``).

        ``own_words`` is the share of content words that the sources need not have.
        """
        plain = _plain(text)
        words = _words(plain)
        # A text of few words does not say what language it is in: its sources may.
        language = language_of(words) or self._language
        faults = chain(
            self._faults_of_form(plain, words),
            self._faults_of_figures(plain, language, is_question=kind is Kind.QUESTION),
            self._faults_of_words(plain, language, kind, own_words),
        )
        return next(iter(faults), None)

    def _faults_of_form(self, plain: str, words: Sequence[str]) -> Iterator[Fault]:
        if not any(map(str.isalnum, plain)):
            yield Fault.EMPTY
        if self._acts(plain):
            yield Fault.MARKUP
        if said := self._of_itself(plain):
            yield said
        if not self._asked.isdisjoint(_runs(words)):
            yield Fault.ECHO

    def _faults_of_figures(self, plain: str, language: str | None, *, is_question: bool) -> Iterator[Fault]:
        bare = _without_places(plain)
        if figure := self._figures.lacks(bare, self._count, language, is_question=is_question):
            yield figure
        if any(not self._has_identifier(chunk) for chunk in plain.split()):
            yield Fault.IDENTIFIER
        if any(self._is_unknown_name(each, language) for each in _capitals(plain)):
            yield Fault.NAME

    def _faults_of_words(self, plain: str, language: str | None, kind: Kind, own_words: float) -> Iterator[Fault]:
        if kind is Kind.QUESTION:
            return
        if kind is Kind.ADVICE:
            known, units = self._known_words(plain, language)
            if (known + units).count(False) > OWN_WORDS_OF_ADVICE * len(known + units):
                yield Fault.WORDS
            return
        if self.denies(plain):
            yield Fault.NEGATION
        quoted = (word for span in _QUOTED.findall(plain) for word in _content(span, language))
        if not all(self._knows(word, language) for word in quoted):
            yield Fault.WORDS
        if self._has_too_many_words(plain, language, own_words):
            yield Fault.WORDS

    def denies(self, text: str) -> bool:
        """Return whether a text says with a negation what the sources say without, or the other way round."""
        plain = _plain(text)
        language = language_of(_words(plain)) or self._language
        return any(
            self._denies(each) or self._has_contrary(each) for each in _clauses(_without_questions(plain), language)
        )

    def _has_contrary(self, clause: "_Clause") -> bool:
        """Whether the clause says "agrees" where one of the sources that shares a word with it says "disagrees"."""
        for word in clause.words - self._by_word.keys():
            others = (*(each + word for each in CONTRARY), *(word.removeprefix(each) for each in CONTRARY))
            for other in others:
                places = self._by_word.get(other, ()) if other != word and len(other) >= _SHORT_LETTERS else ()
                if any(not clause.words.isdisjoint(self._clauses[place].words) for place in places):
                    return True
        return False

    def _acts(self, plain: str) -> bool:
        if _NEVER.search(plain):
            return True
        folded = fold(plain)
        return any(found[0] not in self._folded for found in _MARKUP.finditer(folded))

    def _of_itself(self, plain: str) -> Fault | None:
        for fault, pattern in ((Fault.REFUSAL, REFUSALS), (Fault.CHATTER, CHATTER)):
            said = _sentences(fold(plain))
            found = [each for each in said if pattern.search(each) or pattern.search(without_accents(each))]
            # Somebody may be quoted, but a refusal alone is no text about what was said.
            if len(found) == len(said) or not all(each in self._folded for each in found):
                return fault
        return None

    def _has_identifier(self, chunk: str) -> bool:
        word = _stripped(chunk)
        if not word or _is_plain(word):
            return True
        folded = fold(word)
        if folded in self._identifiers or folded.removesuffix("'s") in self._identifiers:
            return True
        if _is_place(word):
            return False
        parts = [part for part in _JOINS.split(word) if part]
        return len(parts) > 1 and all(map(self._has_identifier, parts))

    def _is_unknown_name(self, capital: "_Capital", language: str | None) -> bool:
        word = without_accents(fold(capital.word))
        if word in MONTHS or word.removesuffix("s") in WEEKDAYS or word in WEEKDAYS or self._knows_name(word):
            return False
        if word in REFERENTS or _is_idle(word, language) or word in NUMBER_WORDS.get(language or "english", {}):
            return False
        if language == "german":
            # Nouns have capitals, too: a name has no article, and seldom an ending of nouns.
            is_noun = capital.is_first or capital.before in _GERMAN_ARTICLES or _GERMAN_NOUN.search(word) is not None
            return not (is_noun or self._knows(word, language))
        if capital.is_first:
            return not (_is_common(word) or self._knows(word, language)) and word.isascii()
        return True

    def _knows_name(self, word: str) -> bool:
        forms = (word, word.removesuffix("s"), *(word + ending for ending in ("s", "n", "en", "es")))
        return any(form in self._words for form in forms) or (
            _is_cyrillic(word) and not self._words.isdisjoint(_stems_of(word, "russian"))
        )

    def _knows(self, word: str, language: str | None) -> bool:
        bare = without_accents(word)
        if bare in self._words or not self._words.isdisjoint(_stems_of(word, language)):
            return True
        if len(bare) >= _BEGINNING and bare[: max(_BEGINNING, len(bare) - 3)] in self._beginnings:
            return True
        if not MANNERS.get(bare, frozenset()).isdisjoint(self._manners):
            return True
        # A compound of a word of the sources, or the end of one.
        return len(bare) >= 2 * _WITHIN and any(
            bare[start:stop] in self._words
            for start in (0, *range(_WITHIN - 1, len(bare) - _WITHIN + 1))
            for stop in range(start + _WITHIN, min(len(bare), _LONGEST_COMPOUND) + 1)
            if start == 0 or stop == len(bare)
        )

    def _denies(self, clause: "_Clause") -> bool:
        """Whether a clause of the sources about the same says it with a negation, and this one without, or reversed."""
        shared: dict[int, int] = {}
        for word in clause.words:
            for place in self._by_word.get(word, ()):
                shared[place] = shared.get(place, 0) + 1
        least = min(_SAME_WORDS, len(clause.words))
        same, contrary = 0, 0
        for place, count in shared.items():
            each = self._clauses[place]
            is_about_it = count >= least and count >= _SAME_SHARE * min(len(clause.words), len(each.words))
            if not is_about_it:
                continue
            if not clause.contradicts(each):
                same = max(same, count)
            # What is denied is denied as a whole: some words of it may be said of something else.
            elif count >= _SAME_SHARE * len((each if each.is_denial else clause).words):
                contrary = max(contrary, count)
        if contrary > same or (contrary > 0 and self._says_denied(clause, shared)):
            return True
        is_known = len(clause.words) >= _SAME_WORDS and clause.words <= self._by_word.keys()
        return is_known and clause.is_negative and not any(self._clauses[place].may_deny for place in shared)

    def _says_denied(self, clause: "_Clause", shared: dict[int, int]) -> bool:
        """Whether all words of a negated clause are said without the negation, and no source says them so."""
        if clause.is_denial:
            return False
        for place, count in shared.items():
            each = self._clauses[place]
            if count < max(_SAME_WORDS, len(each.words)) or not clause.contradicts(each):
                continue
            others = (self._clauses[at] for at in self._by_word[next(iter(each.words))])
            if not any(each.words <= other.words and not other.is_denial for other in others):
                return True
        return False

    def _has_too_many_words(self, plain: str, language: str | None, own_words: float) -> bool:
        known, units = list[bool](), list[bool]()
        for sentence in (*_LONG_SENTENCE.split(plain), None):
            more, more_units = self._known_words(sentence or "", language)
            # A few words are no sentence: they go with the one before them.
            if sentence is None or len(more) + len(more_units) >= _SENTENCE_WORDS:
                if _are_too_many(known, own_words) or units.count(False) > OWN_PAIRS * len(units):
                    return True
                known, units = [], []
            known += more
            units += more_units
        return False

    def _known_words(self, text: str, language: str | None) -> tuple[list[bool], list[bool]]:
        """Return of each content word, and of each pair of characters, whether the sources have it."""
        said = (word for word in _content(text, language) if without_accents(word) not in REPORTING)
        words = [self._knows(word, language) for word in said]
        return words, [pair in self._pairs for pair in _telling_pairs(text)]


def _are_too_many(known: Sequence[bool], own_words: float) -> bool:
    # Of a few words one may be another; of many it is the share that tells.
    return known.count(False) > min(own_words * len(known), _OWN_WORDS_OF_MANY * len(known) + 1)


#: Content words of the shortest text that is looked at as a sentence.
_SENTENCE_WORDS = 3

_LONG_SENTENCE = re.compile(r"[.!?](?=\s|$)|[\u2026\u3002\uff01\uff1f\u061f\u06d4]|\n")

#: What is quoted stands in the sources as it is.
_QUOTED = re.compile(
    r"(?:(?<=\s)|^)['\"`\u201c\u201e\u00ab]([^'\"`\u201c\u201d\u00ab\u00bb\n]{1,60})['\"`\u201d\u201c\u00bb](?=\W|$)"
)

#: What acts on who reads it, or belongs to the making of an answer: never a part of a memory.
_NEVER = re.compile(
    r"</?\s*(?:think(?:ing)?|reason(?:ing)?|reflection|scratchpad|tool_?calls?|function_?calls?|tool_response|invoke|"
    r"entry|trajectory|candidate|passage|problems|memory-entry|person-said|agent-answered|experience-part|"
    r"execution-fact|earlier-summary|earlier-answer|script|iframe)\b"
    r"|<\|[^|\n]{1,40}\|>|\[/?(?:tool_calls|inst|sys)\]|<</?sys>>"
    r'|"(?:arguments|tool_calls|function_call|tool_name)"\s*:',
    re.IGNORECASE,
)

#: Tags and fences, which stand where a source has them.
_MARKUP = re.compile(r"</?[a-z][a-z0-9-]*(?:\s[^<>\n]{0,200})?/?>|```|~~~|<!--")

#: The mark of a list's item, which is no number of the text.
_LISTED = re.compile(r"^[ \t]{0,8}\d{1,2}[.)][ \t]", re.MULTILINE)

_UNSEEN = re.compile("[\u200b-\u200f\u2028-\u202e\u2060\ufeff]")

_TYPED = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-") | dict.fromkeys("\u2018\u2019\u02bc", "'"))


def _plain(text: str) -> str:
    """Return a text as people type it: fences show "<" as "&lt;", and models copy that."""
    unescaped = html.unescape(_UNSEEN.sub("", text))
    return _LISTED.sub("", unicodedata.normalize("NFKC", unescaped).translate(_TYPED))


def _words(text: str) -> list[str]:
    return Tokenizer.words(text)


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _ECHO_WORDS]) for at in range(len(words) - _ECHO_WORDS + 1)}


_SENTENCE = re.compile(r"[.!?;:](?=\s|$)|[\u2026\u3002\uff01\uff1f\u061f\u06d4]|\n")


def _sentences(text: str) -> list[str]:
    return [part for each in _SENTENCE.split(text) if (part := each.strip(" \t\r\"'*-\u2022\u00bf\u00a1"))]


@cache
def _stemmers() -> Stems:
    return Stems()


def _stems_of(word: str, language: str | None) -> set[str]:
    stems = _stemmers()
    found = {stems.of(word, "english"), stems.of(word, language or "english")}
    if _is_cyrillic(word):
        found.add(stems.of(word, "russian"))
    return found


def _is_cyrillic(word: str) -> bool:
    return "\u0400" <= word[0] <= "\u04ff"


def _is_idle(word: str, language: str | None) -> bool:
    if word in ENGLISH_STOP_WORDS or (language is not None and is_function_word(word, language)):
        return True
    return word[0] > "\u036f" and len(word) <= _SHORT_LETTERS


_LONE = re.compile(f"[{LONE_LETTERS}]")


def _content(text: str, language: str | None) -> list[str]:
    """Return the words that say something; numbers and scripts without spaces are looked at elsewhere."""
    return [
        word
        for word in _words(_without_places(text))
        if len(word) >= _LEAST_LETTERS
        and not any(map(str.isdigit, word))
        and not _LONE.match(word)
        and not _is_idle(word, language)
        and without_accents(word) not in _PASSED_OVER
    ]


_PASSED_OVER = frozenset().union(
    REFERENTS, BESIDE_NEGATIONS, MONTHS, WEEKDAYS, UNITS, *NEGATIONS.values(), *NUMBER_WORDS.values()
)


def _is_common(word: str) -> bool:
    """Whether a word is one of a language, in one of its forms; any is where no list of them is installed."""
    known = common_words()
    forms = [word, *(word.removesuffix(ending) for ending in _ENDINGS if len(word) - len(ending) >= _SHORT_LETTERS)]
    return not known or any(form in known or f"{form}e" in known for form in forms)


#: Endings without which a word may stand in the list of common ones.
_ENDINGS = ("s", "es", "d", "ed", "ing", "n", "en", "er", "r", "ly", "e", "o", "a", "ar", "ir")


_GERMAN_ARTICLES = frozenset(
    """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner im am zum zur beim vom ins
    ans mein meine dein deine ihr ihre ihrem ihren ihrer sein seine seinem seinen seiner unser unsere dieser diese
    dieses diesem diesen jeder jede jedes jedem jeden alle
    """.split()  # noqa: SIM905  # a list of one word a line would be unreadable
)
_GERMAN_NOUN = re.compile(r"(?:ung|heit|keit|schaft|tion|tat|nis|ment|erin|innen|ungen|ling|tum|ur|ik|ei)(?:e?n|s)?$")


@dataclass(frozen=True, slots=True)
class _Capital:
    """A word with a capital letter: whether it begins a sentence, and the word before it, folded."""

    word: str
    is_first: bool
    before: str


_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_BEGINS = re.compile(r"[.!?:;\u2026\u3002\n*\u2022\"\u201c\u201e\u00ab\u00bf\u00a1(\[]|^\s*-|\s-\s")


def _capitals(plain: str) -> Iterator[_Capital]:
    end, before = 0, ""
    for found in _TOKEN.finditer(plain):
        word = found[0].removesuffix("'s").partition("'")
        # "l'Adobe" and "O'Brien": what follows a short word and an apostrophe is the name.
        bare = word[2] if word[2][:1].isupper() else word[0]
        gap = plain[end : found.start()]
        if bare[:1].isupper() and len(bare) > 1 and not (gap.endswith(tuple("0123456789_")) or _is_inside(gap)):
            yield _Capital(bare, is_first=not before or _BEGINS.search(gap) is not None, before=before)
        end, before = found.end(), fold(found[0])


def _is_inside(gap: str) -> bool:
    """Whether a word goes on inside an identifier."""
    return bool(gap) and not gap[-1].isspace() and gap[-1] in "/\\._@=#&"


#: Stand around an identifier and are no part of it.
_AROUND_LEFT, _AROUND_RIGHT = "\"'`([{<*\u201c\u201e\u00ab\u300c", "\"'`)]}>*.,;:!?\u201d\u201c\u00bb\u300d\u3002\uff0c"

_JOINS = re.compile(r"[/:,;|()\[\]{}\"'`+&\u3001\u3002\uff0c\uff1a]+|->")


def _stripped(chunk: str) -> str:
    word = chunk.strip(_AROUND_LEFT + _AROUND_RIGHT)
    return word.removesuffix("'s")


_WORDLIKE = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_FIGURE = re.compile(
    r"[-+~\u2248<>]?[$\u20ac\u00a3\u00a5]?\d[\d.,:'/-]*(?:e[-+]?\d+)?(?:[%\u2030$\u20ac\u00a3\u00a5\u00b0]|[^\W\d_]{1,4})?\.?"
)
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_INNER_DOT = re.compile(r"[^\W_]\.[^\W\d_]")
_UNSPACED = re.compile(f"[{LONE_LETTERS}]")


def _is_plain(word: str) -> bool:
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


def _is_place(word: str) -> bool:
    """Whether a chunk is an address, a path, a flag or a setting, which stands as a whole or not at all."""
    return "://" in word or "@" in word or "=" in word or word.startswith(("/", "~", "./", "--"))


def _identifier_forms(chunk: str) -> Iterator[str]:
    """Yield what a chunk of a source may be called: it, its parts, and the beginnings of an address or a path."""
    word = _stripped(chunk)
    folded = fold(word)
    if not folded:
        return
    yield folded
    yield fold(chunk)
    parts = [part for part in re.split(r"[/:,;|()\[\]{}\"'`=+&@]+|->", folded) if part]
    if len(parts) > 1 and len(parts) <= _LONGEST_COMPOUND:
        yield from parts
        # "parseInvoice()" without its brackets, "ops@example.org" and "10.2.0.15:8080" with them.
        yield from (folded.rstrip("()"), folded.partition("://")[2], folded.rstrip("/"))
        for mark in "/:(=":
            head, _, rest = folded.rpartition(mark)
            yield from (head, rest)


def _without_places(plain: str) -> str:
    """Return a text without its addresses and paths, whose digits are no numbers."""
    return " ".join(chunk if not _is_place(_stripped(chunk)) else "." for chunk in plain.split(" "))


@dataclass(frozen=True, slots=True)
class _Clause:
    """The content words of a clause, stemmed, whether it denies them, and the words by which it takes them back.

    Attributes:
        kept: those that are themselves denied: "did not cancel".
    """

    words: frozenset[str]
    is_negative: bool
    taken: frozenset[str]
    kept: frozenset[str]

    @property
    def is_denial(self) -> bool:
        return self.is_negative or bool(self.kept)

    @property
    def may_deny(self) -> bool:
        return self.is_denial or bool(self.taken)

    def contradicts(self, other: "_Clause") -> bool:
        """Return whether one of two clauses on the same denies what the other says."""
        both = {word for word in self.taken & other.taken if word.startswith(WITHOUT)}
        if (self.taken | other.taken) - both or self.kept or other.kept:
            # Who says that it was cancelled may say as well that it is no more.
            return not (self.kept.isdisjoint(other.taken) and self.taken.isdisjoint(other.kept))
        return self.is_negative != other.is_negative


_PART = re.compile(r"(?<=[.!?\n])")


def _without_questions(text: str) -> str:
    """Return a text without its questions: what is asked is said of nobody."""
    return "".join(part for part in _PART.split(text) if not part.endswith("?")) if "?" in text else text


#: Words between a denial and what it denies.
_DENIED_WITHIN = 2


def _clauses(text: str, language: str | None) -> Iterator[_Clause]:
    stemmed = language or "english"
    # Denials are those of the text's language: "no" is "in the" in Portuguese.
    denials = NEGATIONS[stemmed] | NEGATIONS["russian"] | NEGATIONS["arabic"]
    for part in CLAUSE_JOINS.split(fold(text)):
        every = [without_accents(word) for word in _words(part)]
        if not every:
            continue
        taken, kept, denied = set[str](), set[str](), list[int]()
        for place, word in enumerate(every):
            if word in denials:
                denied.append(place)
            elif word.startswith(TAKES_BACK) or word in TAKES_BACK_WHOLE:
                stem = without_accents(_stemmers().of(word, stemmed))
                if denied and place - denied[-1] <= _DENIED_WITHIN:
                    denied.pop()
                    kept.add(stem)
                else:
                    taken.add(stem)
        stems = {without_accents(_stemmers().of(word, stemmed)) for word in _content(part, language)}
        yield _Clause(
            words=frozenset(stems.union(_telling_pairs(part))),
            is_negative=bool(denied) or CJK_NEGATIONS.search(part) is not None,
            taken=frozenset(taken),
            kept=frozenset(kept),
        )


_SPELLING_LETTERS = re.compile("[\u3041-\u309f]")


def _telling_pairs(text: str) -> list[str]:
    """Return the pairs of characters that say something, of scripts without spaces."""
    folded = fold(text)
    found: list[tuple[str, ...]] = [(pair,) for pair in pairs(folded) if not _SPELLING_LETTERS.search(pair)]
    return [each[0] for each in telling(found, folded)] if found else []
