"""What texts state and what they deny, clause by clause: a denial may neither vanish nor appear."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memcore.embedding.bm25 import fold
from memcore.embedding.languages import without_accents
from memcore.llm.grounding.texts import SHORT_LETTERS, content, stemmers, telling_pairs, words_of
from memcore.llm.grounding.words import (
    CJK_NEGATIONS,
    CLAUSE_JOINS,
    CONTRARY,
    NEGATIONS,
    TAKES_BACK,
    TAKES_BACK_WHOLE,
    WITHOUT,
)

#: Content words that two clauses share at least, and their share of the shorter one, to be about the same.
_SAME_WORDS, _SAME_SHARE = 2, 0.6

#: Clauses that are looked at for one word, or a long text would take the square of its length.
_MOST_CLAUSES = 100


class Statements:
    """The clauses of texts, read as those of one language."""

    def __init__(self, texts: Sequence[str], language: str | None) -> None:
        self._language = language
        self._clauses: list[_Clause] = []
        self._by_word: dict[str, list[int]] = {}
        for text in texts:
            for clause in _clauses(_without_questions(text), language):
                for word in clause.words:
                    places = self._by_word.setdefault(word, [])
                    if len(places) < _MOST_CLAUSES:
                        places.append(len(self._clauses))
                self._clauses.append(clause)

    def deny(self, plain: str, *, is_advice: bool = False) -> bool:
        """Return whether they deny a text, or it denies them; advice may warn of what nobody denied."""
        return any(
            self._denies(each, is_advice=is_advice) or self._has_contrary(each)
            for each in _clauses(_without_questions(plain), self._language)
        )

    def _has_contrary(self, clause: "_Clause") -> bool:
        """Whether the clause says "agrees" where one of the sources that shares a word with it says "disagrees"."""
        for word in clause.words - self._by_word.keys():
            others = (*(each + word for each in CONTRARY), *(word.removeprefix(each) for each in CONTRARY))
            for other in others:
                places = self._by_word.get(other, ()) if other != word and len(other) >= SHORT_LETTERS else ()
                if any(not clause.words.isdisjoint(self._clauses[place].words) for place in places):
                    return True
        return False

    def _denies(self, clause: "_Clause", *, is_advice: bool) -> bool:
        """Whether a clause of the sources about the same says it with a negation, and this one without, or reversed."""
        if is_advice and clause.is_warning:
            return False
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
        if is_advice:
            return False
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


@dataclass(frozen=True, slots=True)
class _Clause:
    """The content words of a clause, stemmed, whether it denies them, and the words by which it takes them back.

    Attributes:
        kept: those that are themselves denied: "did not cancel".
        is_warning: it says what not to do, which nobody need have done: "do not repeat the call at once".
    """

    words: frozenset[str]
    is_negative: bool
    taken: frozenset[str]
    kept: frozenset[str]
    is_warning: bool

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


#: How a warning begins.
_WARNING = re.compile(
    r"[\s\d.)*-]*(?:do not|don['\u2019]t|never|avoid|nie|niemals|nooit|nunca|jamais|mai|ne|non|não|evita|evite|évite|не"
    r"|никогда)\b"
)

#: Words between a denial and what it denies.
_DENIED_WITHIN = 2


def _denials_of(language: str | None) -> frozenset[str]:
    # "no" is "in the" in Portuguese.
    english = NEGATIONS["english"] - ({"no"} if language == "portuguese" else set[str]())
    return NEGATIONS[language or "english"] | english | NEGATIONS["russian"] | NEGATIONS["arabic"]


def is_denial(folded: str, language: str | None) -> bool:
    """Return whether a text denies anything at all."""
    denials = _denials_of(language)
    return CJK_NEGATIONS.search(folded) is not None or any(
        without_accents(word) in denials for word in words_of(folded)
    )


def _clauses(text: str, language: str | None) -> Iterator[_Clause]:
    stemmed, denials = language or "english", _denials_of(language)
    for part in CLAUSE_JOINS.split(fold(text)):
        every = [without_accents(word) for word in words_of(part)]
        if not every:
            continue
        taken, kept, denied = set[str](), set[str](), list[int]()
        for place, word in enumerate(every):
            if word in denials:
                denied.append(place)
            elif word.startswith(TAKES_BACK) or word in TAKES_BACK_WHOLE:
                stem = without_accents(stemmers().of(word, stemmed))
                if denied and place - denied[-1] <= _DENIED_WITHIN:
                    denied.pop()
                    kept.add(stem)
                else:
                    taken.add(stem)
        stems = {without_accents(stemmers().of(word, stemmed)) for word in content(part, language)}
        yield _Clause(
            words=frozenset(stems.union(telling_pairs(part))),
            is_negative=bool(denied) or CJK_NEGATIONS.search(part) is not None,
            taken=frozenset(taken),
            kept=frozenset(kept),
            is_warning=_WARNING.match(part) is not None or (language == "spanish" and every[0] == "no"),
        )
