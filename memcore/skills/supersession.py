"""Compares a new skill with an existing one: the verdict, the claims behind it, and the medoid of several lessons."""

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, Self

from pydantic import ValidationError

from memcore.ledger.learning.lessons import Lesson
from memcore.models.base import Frozen
from memcore.procedural.records import LessonText
from memcore.skills.candidates import terms

#: Conditions that share so much are about the same case, and actions that share so much agree (Jaccard of tokens).
SAME_CASE = 0.5
SAME_ACTION = 0.5

#: Share of the old condition's tokens that the new one must have to cover it.
COVERS = 0.8

#: Shortest token, in characters.
_TOKEN_CHARS = 2

_WORD = re.compile(r"\w+")


class Verdict(StrEnum):
    """The relation of a new skill to an old one."""

    #: The same case, another action: a person must look; it is not proposed.
    CONFLICT = "conflict"
    #: It covers the old one's case, acts alike, and is surer: once approved it takes the old one's place.
    FULL = "full"
    #: Both stand beside each other.
    PARTIAL = "partial"


class SkillClaim(Protocol):
    """A skill's condition, action and confidence; a ProceduralMemoryProposal has them."""

    @property
    def condition(self) -> str:
        """When it applies."""
        ...

    @property
    def action(self) -> str:
        """What to do then."""
        ...

    @property
    def confidence(self) -> float:
        """From 0.0 to 1.0."""
        ...


class ParsedClaim(Frozen):
    """A claim as token sets: parsed once, compared with many.

    Attributes:
        condition: the tokens of its condition.
        action: the tokens of its action.
        confidence: 0 to 1.
    """

    condition: frozenset[str]
    action: frozenset[str]
    confidence: float

    @classmethod
    def of(cls, claim: SkillClaim) -> Self:
        """Parse a claim."""
        return cls(condition=tokens(claim.condition), action=tokens(claim.action), confidence=claim.confidence)

    def verdict(self, existing: "ParsedClaim") -> Verdict:
        """Return this claim's relation to the existing one; a contradiction is looked for first.

        A condition without a word says nothing about its case, so both stand. Actions without a word agree with
        nothing.
        """
        if not self.condition or not existing.condition:
            return Verdict.PARTIAL
        is_agreeing = self._acts_like(existing)
        if jaccard(self.condition, existing.condition) >= SAME_CASE and not is_agreeing:
            return Verdict.CONFLICT
        if is_agreeing and self.covers(existing) and self.confidence > existing.confidence:
            return Verdict.FULL
        return Verdict.PARTIAL

    def repeats(self, existing: "ParsedClaim") -> bool:
        """Whether the existing one covers its case and acts alike, so that it would add nothing."""
        return bool(self.condition) and existing.covers(self) and self._acts_like(existing)

    def covers(self, other: "ParsedClaim") -> bool:
        """Whether its condition reaches as far as the other one's, which has a word."""
        return len(self.condition & other.condition) / len(other.condition) >= COVERS

    def _acts_like(self, other: "ParsedClaim") -> bool:
        return jaccard(self.action, other.action) >= SAME_ACTION


def verdict_of(candidate: SkillClaim, existing: SkillClaim) -> Verdict:
    """Return the candidate's relation to the existing one (see :meth:`ParsedClaim.verdict`)."""
    return ParsedClaim.of(candidate).verdict(ParsedClaim.of(existing))


def tokens(text: str) -> frozenset[str]:
    """Return the words of the text, of any script, in lower case and one Unicode form, without single characters."""
    folded = unicodedata.normalize("NFKC", text).lower()
    return frozenset(word for word in _WORD.findall(folded) if len(word) >= _TOKEN_CHARS)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of all tokens that both have; 0.0 when there is none."""
    every = one | other
    return len(one & other) / len(every) if every else 0.0


def medoid(lessons: Sequence[Lesson]) -> LessonText | None:
    """Return the lesson that most agrees with all, weighted by its own confidence; None when none can be read.

    Agreement is the mean over all lessons, itself among them, of the words of condition and action that both have. Of
    equals the one with the least id is taken, so that the order of the lessons cannot matter.
    """
    read = [(lesson.lesson_id, text) for lesson in lessons if (text := _text(lesson)) is not None]
    words = {lesson_id: (terms(text.condition), terms(text.action)) for lesson_id, text in read}

    def standing(one: tuple[str, LessonText]) -> tuple[float, str]:
        lesson_id, text = one
        # Rounded: a sum must not depend on its order.
        agreement = round(sum(_agreement(words[lesson_id], each) for each in words.values()) / len(words), 9)
        return -agreement * text.confidence, lesson_id

    return min(read, key=standing)[1] if read else None


def _agreement(one: tuple[frozenset[str], frozenset[str]], other: tuple[frozenset[str], frozenset[str]]) -> float:
    return sum(jaccard(these, those) for these, those in zip(one, other, strict=True)) / 2


def _text(lesson: Lesson) -> LessonText | None:
    try:
        return LessonText.model_validate_json(lesson.text or "")
    except ValidationError:
        return None
