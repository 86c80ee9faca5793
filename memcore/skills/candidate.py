"""A candidate: a pattern, and the lesson that would become a skill of all agents."""

from dataclasses import dataclass

from memcore.ledger.pattern import Pattern
from memcore.procedural.lesson_text import LessonText


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What may be proposed.

    Attributes:
        approval_id: under which it would be.
        lesson: an agent's own, as sure as the agent was.
    """

    pattern_id: str
    approval_id: str
    pattern: Pattern
    lesson: LessonText

    @property
    def condition(self) -> str:
        """When it applies."""
        return self.lesson.condition

    @property
    def action(self) -> str:
        """What to do then."""
        return self.lesson.action

    @property
    def confidence(self) -> float:
        """The pattern's, not the lesson's: what many have seen, not what one of them thinks of it."""
        return self.pattern.confidence

    @property
    def rank(self) -> tuple[float, int, str]:
        """The place among all: the surest first, then the most frequent, then by id."""
        return -self.confidence, -self.pattern.occurrences, self.pattern_id
