"""The sources of a text, and whether they bear it out: the checks in their order, and the shares of own words."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from enum import Enum, auto
from itertools import chain

from memcore.embedding.bm25 import fold
from memcore.embedding.languages import (
    language_of,
    pairs,
    without_accents,
)
from memcore.llm.grounding.denials import Statements
from memcore.llm.grounding.figures import Fault, Figures
from memcore.llm.grounding.names import (
    GERMAN_ARTICLES,
    GERMAN_NOUN,
    JOINS,
    LONGEST_COMPOUND,
    Capital,
    capitals,
    identifier_forms,
    is_common,
    is_place,
    is_plain,
    stripped,
    without_places,
)
from memcore.llm.grounding.texts import content, is_cyrillic, is_idle, plain_of, stems_of, telling_pairs, words_of
from memcore.llm.grounding.words import (
    ASKING,
    CHATTER,
    MANNERS,
    MONTHS,
    NO_MONTHS,
    NUMBER_WORDS,
    REFERENTS,
    REFUSALS,
    REPORTING,
    WEEKDAYS,
)

#: Share of a sentence's content words that its sources need not have: summaries and lessons have verbs of their own.
OWN_WORDS = 0.5

#: Of that, the part for pairs of characters in scripts without capital letters, where names look like other words.
_PAIR_SHARE = 0.5

#: The same share of a long sentence, beside one word.
_OWN_WORDS_OF_MANY = 1 / 3

#: The same of a whole text that says what to do the next time, made of little more than the names of tools.
OWN_WORDS_OF_ADVICE = 0.9

#: Words in a row that a text shares with the instructions and with no source: it repeats them.
_ECHO_WORDS = 6

#: Letters of a word's beginning by which two forms of it meet, and of a word within a compound.
_BEGINNING, _WITHIN = 5, 5


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


def is_open_question(text: str) -> bool:
    """Return whether a question asks for more than yes or no, by its first words, in six languages."""
    words = words_of(plain_of(text))
    asking = ASKING.get(language_of(words) or "english", frozenset[str]())
    return any(without_accents(word) in asking for word in words[:_FIRST_WORDS])


#: Words among which that of an open question stands: "in which year", "at what time".
_FIRST_WORDS = 3


class Grounds:
    """The sources of several texts, read once; the arguments are those of ``ungrounded``.

    ``dated`` are days that the sources bear beside their texts: a text may name them, and no number in them.
    """

    def __init__(
        self,
        sources: Iterable[str],
        *,
        instructions: str = "",
        said_on: Iterable[date] = (),
        dated: Iterable[date] = (),
    ) -> None:
        texts = [plain_of(text) for text in sources]
        self._count = len(texts)
        self._folded = "\n".join(map(fold, texts))
        self._figures = Figures(said_on=set(said_on), dated=set(dated))
        self._words, self._beginnings, self._pairs = set[str](), set[str](), set[str]()
        self._identifiers = set[str]()
        self._texts = texts
        self._statements: dict[str | None, Statements] = {}
        self._manners = set[int]()
        words = [words_of(text) for text in texts]
        self._language = language_of([word for each in words for word in each])
        for text, every in zip(texts, words, strict=True):
            self._add(text, every)
        shown = words_of(instructions)
        self._asked = _runs(shown) - {run for each in words for run in _runs(each)}

    def _add(self, text: str, words: Sequence[str]) -> None:
        self._figures.read(fold(text), languages=tuple(NUMBER_WORDS))
        for word in words:
            bare = without_accents(word)
            self._words |= {bare, *stems_of(word, self._language)}
            self._beginnings |= {bare[:size] for size in range(_BEGINNING, min(len(bare), LONGEST_COMPOUND) + 1)}
            self._manners |= MANNERS.get(bare, frozenset())
        self._pairs.update(pairs(fold(text)))
        for chunk in text.split():
            self._identifiers.update(identifier_forms(chunk))

    def fault(self, text: str, *, kind: Kind = Kind.STATEMENT, own_words: float = OWN_WORDS) -> Fault | None:
        """Return why a text may not be kept, or None (see ``ungrounded``).

        ``own_words`` is the share of content words that the sources need not have.
        """
        plain = plain_of(text)
        words = words_of(plain)
        # A text of few words does not say what language it is in: its sources may.
        language = language_of(words) or self._language
        faults = chain(
            self._faults_of_form(plain, words),
            self._faults_of_figures(plain, language, is_question=kind is Kind.QUESTION),
            self._faults_of_words(plain, language, kind, own_words),
        )
        return next(iter(faults), None)

    def _faults_of_form(self, plain: str, words: Sequence[str]) -> Iterator[Fault]:
        if not any(each.isalnum() or unicodedata.category(each) == "So" for each in plain):
            yield Fault.EMPTY
        if self._acts(plain):
            yield Fault.MARKUP
        if said := self._of_itself(plain):
            yield said
        if not self._asked.isdisjoint(_runs(words)):
            yield Fault.ECHO

    def _faults_of_figures(self, plain: str, language: str | None, *, is_question: bool) -> Iterator[Fault]:
        bare = without_places(plain)
        if figure := self._figures.lacks(bare, self._count, language, is_question=is_question):
            yield figure
        if any(not self._has_identifier(chunk) for chunk in plain.split()):
            yield Fault.IDENTIFIER
        if any(self._is_unknown_name(each, language) for each in capitals(plain)):
            yield Fault.NAME

    def _faults_of_words(self, plain: str, language: str | None, kind: Kind, own_words: float) -> Iterator[Fault]:
        if kind is Kind.QUESTION:
            return
        if self.denies(plain, is_advice=kind is Kind.ADVICE):
            yield Fault.NEGATION
        quoted = (word for span in _QUOTED.findall(plain) for word in content(span, language))
        if not all(self._knows(word, language) for word in quoted):
            yield Fault.WORDS
        if kind is Kind.ADVICE:
            known, units = self._known_words(plain, language)
            if (known + units).count(False) > OWN_WORDS_OF_ADVICE * len(known + units):
                yield Fault.WORDS
            return
        if self._has_too_many_words(plain, language, own_words):
            yield Fault.WORDS

    def is_repeated_by(self, text: str) -> bool:
        """Return whether a text says nothing that the sources do not."""
        return self.fault(text, own_words=0.0) is None

    def denies(self, text: str, *, is_advice: bool = False) -> bool:
        """Return whether a text says with a negation what the sources say without, or the other way round.

        Advice may warn of what nobody denied.
        """
        plain = plain_of(text)
        language = language_of(words_of(plain)) or self._language
        if language not in self._statements:
            self._statements[language] = Statements(self._texts, language)
        return self._statements[language].deny(plain, is_advice=is_advice)

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
            if found and (len(found) == len(said) or not all(each in self._folded for each in found)):
                return fault
        return None

    def _has_identifier(self, chunk: str) -> bool:
        word = stripped(chunk)
        if not word or is_plain(word):
            return True
        folded = fold(word)
        if folded in self._identifiers or folded.removesuffix("'s") in self._identifiers:
            return True
        if is_place(word):
            return False
        parts = [part for part in JOINS.split(word) if part]
        return len(parts) > 1 and all(map(self._has_identifier, parts))

    def _is_unknown_name(self, capital: Capital, language: str | None) -> bool:
        word = without_accents(fold(capital.word))
        is_month = word in MONTHS and word not in NO_MONTHS
        if is_month or word.removesuffix("s") in WEEKDAYS or word in WEEKDAYS or self._knows_name(word):
            return False
        if word in REFERENTS or is_idle(word, language) or word in NUMBER_WORDS.get(language or "english", {}):
            return False
        if language == "german":
            # Nouns have capitals, too: a name has no article, and seldom an ending of nouns.
            is_noun = capital.is_first or capital.before in GERMAN_ARTICLES or GERMAN_NOUN.search(word) is not None
            return not (is_noun or self._knows(word, language))
        if capital.is_first:
            return not (is_common(word) or self._knows(word, language)) and word.isascii()
        return True

    def _knows_name(self, word: str) -> bool:
        forms = (word, word.removesuffix("s"), *(word + ending for ending in ("s", "n", "en", "es")))
        return any(form in self._words for form in forms) or (
            is_cyrillic(word) and not self._words.isdisjoint(stems_of(word, "russian"))
        )

    def _knows(self, word: str, language: str | None) -> bool:
        bare = without_accents(word)
        if bare in self._words or not self._words.isdisjoint(stems_of(word, language)):
            return True
        if len(bare) >= _BEGINNING and bare[: max(_BEGINNING, len(bare) - 3)] in self._beginnings:
            return True
        if not MANNERS.get(bare, frozenset()).isdisjoint(self._manners):
            return True
        # A compound of a word of the sources, or the end of one.
        return len(bare) >= 2 * _WITHIN and any(
            bare[start:stop] in self._words
            for start in (0, *range(_WITHIN - 1, len(bare) - _WITHIN + 1))
            for stop in range(start + _WITHIN, min(len(bare), LONGEST_COMPOUND) + 1)
            if start == 0 or stop == len(bare)
        )

    def _has_too_many_words(self, plain: str, language: str | None, own_words: float) -> bool:
        known, units = list[bool](), list[bool]()
        for sentence in (*_LONG_SENTENCE.split(plain), None):
            more, more_units = self._known_words(sentence or "", language)
            # A few words are no sentence: they go with the one before them.
            if sentence is None or len(more) + len(more_units) >= _SENTENCE_WORDS:
                if _are_too_many(known, own_words) or units.count(False) > own_words * _PAIR_SHARE * len(units):
                    return True
                known, units = [], []
            known += more
            units += more_units
        return False

    def _known_words(self, text: str, language: str | None) -> tuple[list[bool], list[bool]]:
        """Return of each content word, and of each pair of characters, whether the sources have it."""
        said = (word for word in content(text, language) if without_accents(word) not in REPORTING)
        words = [self._knows(word, language) for word in said]
        return words, [pair in self._pairs for pair in telling_pairs(text)]


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
    r"entry|trajectory|candidate|passage|problems|memory-entry|for-reference|person-said|agent-answered|"
    r"experience-part|execution-fact|earlier-summary|earlier-answer|script|iframe)\b"
    r"|<\|[^|\n]{1,40}\|>|\[/?(?:tool_calls|inst|sys)\]|<</?sys>>"
    r'|"(?:arguments|tool_calls|function_call|tool_name)"\s*:',
    re.IGNORECASE,
)

#: Tags and fences, which stand where a source has them.
_MARKUP = re.compile(r"</?[a-z][a-z0-9-]*(?:\s[^<>\n]{0,200})?/?>|```|~~~|<!--")


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _ECHO_WORDS]) for at in range(len(words) - _ECHO_WORDS + 1)}


_SENTENCE = re.compile(r"[.!?;:](?=\s|$)|[\u2026\u3002\uff01\uff1f\u061f\u06d4]|\n")


def _sentences(text: str) -> list[str]:
    return [part for each in _SENTENCE.split(text) if (part := each.strip(" \t\r\"'*-\u2022\u00bf\u00a1"))]
