"""What a text that a model wrote in place of others leaves out of them, word for word; no model is asked."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

from memcore.embedding.bm25 import EXACT, Tokenizer, bare, fold
from memcore.embedding.languages import language_of
from memcore.embedding.sentences import part_rows, part_sentences
from memcore.llm.grounding.denials import is_denial
from memcore.llm.grounding.texts import is_idle, words_of

#: Content words of the shortest sentence that may be said in other words: "We do not." says more than they do.
_LEAST_WORDS = 3

#: Letters of the shortest function word that may not be missing, in any language: "under", "until", "against", "again".
#: The shorter ones ("the", "of", "was") are those that a shorter text does without.
_TELLING_LETTERS = 5

#: What parts a sentence: models join sentences by semicolons.
_PART = re.compile("(?<=[;\u061b]) |(?<=\uff1b)")

_tokenizer = Tokenizer()


class Coverage:
    """A text in place of others, of which it has to say each statement.

    It does where neighbouring sentences, or parts of them, one more than the statement has, bear all content words,
    numbers, names, identifiers and longer function words of it, and deny something where it does. In the whole text
    its words may be those of others.
    """

    def __init__(self, text: str) -> None:
        self._language = language_of(words_of(text))
        parts = (f"{head} {part}" for head, rest in _rows(text) for part in _parts(part_sentences(rest)))
        self._said = [_Said.of(part, self._language) for part in parts]

    def left_out(self, source: str) -> str:
        """Return the statements of a source that the text does not bear, with the day and the person of their line."""
        lines: list[str] = []
        for head, rest in _rows(source):
            # The first of a row says who speaks, and when: nobody repeats it in each sentence.
            every = [
                _Statement.of(each, "" if place else head, self._language)
                for place, each in enumerate(_statements(rest))
            ]
            if lacking := [each.text for each in every if not self._bears(each)]:
                lines.append(f"{head} {' '.join(lacking)}".lstrip())
        return "\n".join(lines)

    def _bears(self, statement: "_Statement") -> bool:
        size = statement.parts + 1
        starts = range(max(1, len(self._said) - size + 1))
        return any(statement.is_borne_by(self._said[start : start + size]) for start in starts)


@dataclass(frozen=True, slots=True)
class _Said:
    """A part of the text by its terms and words, and by its words in order."""

    terms: frozenset[str]
    in_order: str
    is_denial: bool

    @classmethod
    def of(cls, text: str, language: str | None) -> Self:
        terms = frozenset((*_tokenizer.terms(text), *words_of(text)))
        return cls(terms, _in_order(text), is_denial(fold(text), language))


@dataclass(frozen=True, slots=True)
class _Statement:
    """Sentences that belong together, by the terms of each word that may not be missing, any of which is that word.

    Attributes:
        short: the words in order of those that have few content words.
    """

    text: str
    parts: int
    words: tuple[frozenset[str], ...]
    short: tuple[str, ...]
    is_denial: bool

    @classmethod
    def of(cls, sentences: Sequence[str], head: str, language: str | None) -> Self:
        text, parts = " ".join(sentences), [*_parts(sentences)]
        short = tuple(_in_order(part) for part in _parts(filter(_is_short, sentences)))
        said = f"{head} {text}"
        terms = chain.from_iterable(map(_tokenizer.query_terms, (head, *parts)))
        exact = (frozenset({term}) for term in terms if term.startswith(EXACT))
        words = (*_content(said), *exact, *_telling(said, language))
        return cls(text, len(parts), words, short, is_denial(fold(said), language))

    def is_borne_by(self, said: Sequence[_Said]) -> bool:
        return (
            all(any(not word.isdisjoint(each.terms) for each in said) for word in self.words)
            and all(any(words in each.in_order for each in said) for words in self.short)
            and (not self.is_denial or any(each.is_denial for each in said))
        )


def _rows(text: str) -> Iterator[tuple[str, str]]:
    for label, rest in part_rows(text):
        yield f"{label.when} {label.who}".strip(), rest


def _statements(text: str) -> list[list[str]]:
    """Return the sentences of a text; a short one belongs to the one before it."""
    found: list[list[str]] = []
    for sentence in part_sentences(text):
        if found and (_is_short(sentence) or all(map(_is_short, found[-1]))):
            found[-1].append(sentence)
        else:
            found.append([sentence])
    return found


def _parts(sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from _PART.split(sentence)


def _is_short(sentence: str) -> bool:
    return len(_content(sentence)) < _LEAST_WORDS


def _content(text: str) -> tuple[frozenset[str], ...]:
    return tuple(filter(None, map(bare, _tokenizer.query_forms(text))))


def _telling(text: str, language: str | None) -> Iterator[frozenset[str]]:
    return (frozenset({word}) for word in words_of(text) if len(word) >= _TELLING_LETTERS and is_idle(word, language))


def _in_order(text: str) -> str:
    words = words_of(text)
    return f" {' '.join(words)} " if words else ""
