"""Compares candidates with the published skills and the pending proposals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from memcore.errors import MemoryInputError
from memcore.ledger.learning.skills import Skill
from memcore.models.approval import Approval, ApprovalState
from memcore.procedural.records import LessonText
from memcore.skills.candidates import ApprovalSource, SkillCandidate, SkillSource
from memcore.skills.publication import ORG_PROMOTION, lesson_of
from memcore.skills.supersession import ParsedClaim, Verdict

#: How much surer a pattern must become before its own skill is proposed anew: else each window would move it.
LEAST_GAIN = 0.05


@dataclass(slots=True, kw_only=True)
class CandidateStanding:
    """A candidate's relation to the published skills and proposals.

    Attributes:
        reading: the candidate's claim.
        conflicts: ids of what contradicts it.
        supersedes: ids of the skills that it would replace.
        is_settled: whether the pattern's own skill is published, and is no worse.
        is_repeat: whether another skill says the same.
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
            is_better = verdict is Verdict.FULL and self.reading.confidence - reading.confidence >= LEAST_GAIN
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
    """The evolver's pending proposals, those of this cycle among them.

    Attributes:
        growth: how many skills there would be more, if all were approved.
    """

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
        self._readings[approval.approval_id] = ParsedClaim.of(lesson)
        self.growth += 1 - len(approval.proposal.supersedes)

    def conflicts(self, reading: ParsedClaim) -> list[str]:
        """Return the proposals that contradict it."""
        return [name for name, each in self._readings.items() if reading.verdict(each) is Verdict.CONFLICT]

    def says(self, reading: ParsedClaim) -> bool:
        """Whether one of them says the same; a surer candidate waits too until that one is decided."""
        return any(reading.repeats(each) or reading.verdict(each) is Verdict.FULL for each in self._readings.values())


def standings_of(candidates: Sequence[SkillCandidate], skills: SkillSource, *, company: str) -> list[CandidateStanding]:
    """Compare each candidate with each published skill; the skills are read once."""
    found = [CandidateStanding(candidate=each, reading=ParsedClaim.of(each)) for each in candidates]
    for skill in skills.stream(company) if found else ():
        try:
            text = LessonText.model_validate_json(skill.text)
        except ValidationError:
            continue
        # The row's confidence is the skill's, whatever its text was made with.
        reading = ParsedClaim.of(text).model_copy(update={"confidence": skill.confidence})
        for each in found:
            each.meet(skill, text, reading)
    return found


def waiting(approvals: ApprovalSource, *, company: str, now: datetime) -> PendingCandidates:
    """Return the pending proposals of skills; an expired one is not pending, marked or not."""
    found = PendingCandidates()
    for approval in _pending(approvals, company):
        if approval.proposal.action == ORG_PROMOTION and now < approval.expires_at:
            found.add(approval)
    return found


def _pending(approvals: ApprovalSource, company: str) -> Iterator[Approval]:
    last: Approval | None = None
    while page := approvals.page(company, state=ApprovalState.PENDING, before=last):
        yield from page
        last = page[-1]


def _says(text: LessonText) -> LessonText:
    return text.model_copy(update={"confidence": 0.0})
