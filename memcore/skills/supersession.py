"""Compares candidates with one another, with the published skills and with the pending proposals."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import ValidationError

from memcore.errors import MemoryInputError
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.skills import Skill, Skills, SkillView
from memcore.ledger.organization.approvals import Approvals
from memcore.models.approval import Approval, ApprovalState
from memcore.models.base import Frozen
from memcore.procedural.records import LessonText
from memcore.skills.candidates import BacktestResult, SkillCandidate, terms
from memcore.skills.evidence import applied
from memcore.skills.publication import ORG_PROMOTION, lesson_of

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


class ParsedClaim(Frozen):
    """A claim as token sets: parsed once, compared with many."""

    condition: frozenset[str]
    action: frozenset[str]
    confidence: float

    @classmethod
    def of(cls, lesson: LessonText, *, confidence: float) -> Self:
        """Parse a lesson; its own confidence need not be that of the claim."""
        return cls(condition=tokens(lesson.condition), action=tokens(lesson.action), confidence=confidence)

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


def tokens(text: str) -> frozenset[str]:
    """Return the words of the text, of any script, in lower case and one Unicode form, without single characters."""
    folded = unicodedata.normalize("NFKC", text).lower()
    return frozenset(word for word in _WORD.findall(folded) if len(word) >= _TOKEN_CHARS)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of all tokens that both have; 0.0 when there is none."""
    every = one | other
    return len(one & other) / len(every) if every else 0.0


def medoids(lessons: Sequence[Lesson], *, most: int) -> list[LessonText]:
    """Return the lesson that most agrees with all, weighted by its own confidence, then the next that act like it.

    Agreement is the mean over all lessons, itself among them, of the words of condition and action that both have. Of
    equals the one with the least id comes first, so that the order of the lessons cannot matter.
    """
    read = [(lesson.lesson_id, text) for lesson in lessons if (text := _text(lesson)) is not None]
    words = {lesson_id: (terms(text.condition), terms(text.action)) for lesson_id, text in read}

    def standing(one: tuple[str, LessonText]) -> tuple[float, str]:
        lesson_id, text = one
        # Rounded: a sum must not depend on its order.
        agreement = round(sum(_agreement(words[lesson_id], each) for each in words.values()) / len(words), 9)
        return -agreement * text.confidence, lesson_id

    ranked = [text for _, text in sorted(read, key=standing)]
    first = tokens(ranked[0].action) if ranked else frozenset()
    # A lesson with other advice may be replayed well, and be wrong: fewer agents came to it.
    alike = [text for text in ranked[1:] if jaccard(tokens(text.action), first) >= SAME_ACTION]
    return [*ranked[:1], *alike][:most]


def _agreement(one: tuple[frozenset[str], frozenset[str]], other: tuple[frozenset[str], frozenset[str]]) -> float:
    return sum(jaccard(these, those) for these, those in zip(one, other, strict=True)) / 2


def _text(lesson: Lesson) -> LessonText | None:
    try:
        return LessonText.model_validate_json(lesson.text or "", extra="ignore")
    except ValidationError:
        return None


#: Share of the doubt in a pattern's own skill that a better text may leave: else each window would move it.
LEFT_DOUBT = 0.5


@dataclass(slots=True, kw_only=True)
class CandidateStanding:
    """A candidate's relation to the published skills and proposals: ids of what contradicts it, and it would replace.

    It is settled when the pattern's own skill is published and hardly worse, a repeat when another one says the same.
    """

    candidate: SkillCandidate
    reading: ParsedClaim
    conflicts: list[str] = field(default_factory=list)
    supersedes: list[str] = field(default_factory=list)
    is_settled: bool = False
    is_repeat: bool = False

    def meet(self, skill: Skill, text: LessonText, reading: ParsedClaim) -> None:
        """Compare the candidate with a skill."""
        verdict = self.reading.verdict(reading)
        if skill.pattern_id == self.candidate.pattern_id:
            is_surer = 1.0 - self.reading.confidence <= LEFT_DOUBT * (1.0 - reading.confidence)
            is_better = verdict is Verdict.FULL and is_surer
            if not is_better or _says(text) == _says(self.candidate.lesson):
                self.is_settled = True
                return
        if verdict is Verdict.CONFLICT:
            self.conflicts.append(skill.skill_id)
        elif verdict is Verdict.FULL:
            self.supersedes.append(skill.skill_id)
        elif self.reading.repeats(reading):
            self.is_repeat = True


class PendingCandidates:
    """The evolver's pending proposals, those of this cycle among them; all approved, skills grow by ``growth``."""

    def __init__(self) -> None:
        self._readings: dict[str, ParsedClaim] = {}
        self.growth = 0

    def add(self, approval: Approval) -> None:
        """Remember a proposal; once."""
        if approval.approval_id in self._readings:
            return
        try:
            lesson = lesson_of(approval)
        except MemoryInputError:
            return  # of another release: it can be approved there, and compared here no more
        self._readings[approval.approval_id] = ParsedClaim.of(lesson, confidence=lesson.confidence)
        self.growth += 1 - len(approval.proposal.supersedes)

    def conflicts(self, reading: ParsedClaim) -> list[str]:
        """Return the proposals that contradict it."""
        return [name for name, each in self._readings.items() if reading.verdict(each) is Verdict.CONFLICT]

    def says(self, reading: ParsedClaim) -> bool:
        """Whether one of them says the same; a surer candidate waits too until that one is decided."""
        return any(reading.repeats(each) or reading.verdict(each) is Verdict.FULL for each in self._readings.values())


def standings_of(
    backtests: Sequence[BacktestResult],
    skills: Skills,
    *,
    company: str,
    since: datetime,
    own: Mapping[str, float],
    seen: SkillView,
) -> list[CandidateStanding]:
    """Compare each candidate with each published skill, as they are ``seen``; the skills are read once.

    A skill of a candidate's pattern is as sure as ``own`` says by its id; any other as it was when it was approved,
    and less where it failed agents since then.
    """
    found = [
        CandidateStanding(
            candidate=each.candidate, reading=ParsedClaim.of(each.candidate.lesson, confidence=each.confidence)
        )
        for each in backtests
    ]
    for skill in skills.stream(company, seen=seen) if found else ():
        text = text_of(skill)
        if text is None:
            continue
        sure = own.get(skill.skill_id)
        if sure is None:
            # The row's confidence is the skill's, whatever its text was made with.
            votes = skills.votes(company, [skill.skill_id], since=since)
            sure = applied(skill.confidence, min(0.0, votes.get(skill.skill_id, 0.0)))
        reading = ParsedClaim.of(text, confidence=sure)
        for each in found:
            each.meet(skill, text, reading)
    return found


def text_of(skill: Skill) -> LessonText | None:
    """Return a skill's text; None when it is of a form that this release cannot read."""
    try:
        return LessonText.model_validate_json(skill.text, extra="ignore")
    except ValidationError:
        return None


def waiting(approvals: Approvals, *, company: str, now: datetime) -> PendingCandidates:
    """Return the pending proposals of skills; an expired one is not pending, marked or not."""
    found = PendingCandidates()
    for approval in _pending(approvals, company):
        if approval.proposal.action == ORG_PROMOTION and now < approval.expires_at:
            found.add(approval)
    return found


def _pending(approvals: Approvals, company: str) -> Iterator[Approval]:
    last: Approval | None = None
    while page := approvals.page(company, state=ApprovalState.PENDING, before=last):
        yield from page
        last = page[-1]


def _says(text: LessonText) -> LessonText:
    return text.model_copy(update={"confidence": 0.0})
