"""Skill candidates, and the replay of their conditions on past executions before a person is asked to read them."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from memcore.embedding.bm25 import Tokenizer
from memcore.ledger.learning.patterns import Pattern, PatternKind
from memcore.ledger.learning.trajectories import Trajectory
from memcore.procedural.records import LessonText


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCandidate:
    """A pattern, the lesson of one agent that would become a skill of all, and the id of its proposal."""

    pattern_id: str
    approval_id: str
    pattern: Pattern
    lesson: LessonText

    @property
    def confidence(self) -> float:
        """The pattern's confidence, which many agents support, not the lesson's own."""
        return self.pattern.confidence

    @property
    def rank(self) -> tuple[float, int, str]:
        """The place among all: the surest first, then the most frequent, then by id."""
        return -self.confidence, -self.pattern.occurrences, self.pattern_id


_TOKENIZER = Tokenizer()


def terms(*texts: str | None) -> frozenset[str]:
    """Return every term of the texts, each once."""
    return frozenset(_TOKENIZER.terms(" ".join(text for text in texts if text)))


#: Share of the weight of a condition's words that an execution must have.
FITS = 0.5

#: Weights are whole numbers, of which a sum does not depend on its order.
_SCALE = 1_000_000


@dataclass(slots=True, kw_only=True)
class BacktestResult:
    """How a candidate did on the past: executions that its condition fits, and those of them that show its pattern."""

    candidate: SkillCandidate
    fits: int = 0
    helped: int = 0
    agents: set[str] = field(default_factory=set)

    @property
    def precision(self) -> float:
        """The share of what it fits that it would have helped; 0.0 when it fits nothing."""
        return self.helped / self.fits if self.fits else 0.0

    @property
    def recall(self) -> float:
        """The share of the pattern's executions that it fits; counted later than they were, so never above 1.0."""
        return min(1.0, self.helped / self.candidate.pattern.occurrences)

    def note(self, trajectory: Trajectory) -> None:
        """Count an execution that the condition fits."""
        self.fits += 1
        if _shows(trajectory, self.candidate):
            self.helped += 1
            self.agents.add(trajectory.agent_id)


def backtest_candidate(
    candidates: Sequence[SkillCandidate], stream: Callable[[], Iterator[Trajectory]]
) -> list[BacktestResult]:
    """Return how each candidate does on the stream, which is read twice: to weigh words, and to try conditions.

    A word weighs the more the fewer executions have it. A condition fits an execution that has half the weight of its
    words; those that no execution has do not count.
    """
    backtests = [BacktestResult(candidate=each) for each in candidates]
    conditions = [terms(each.lesson.condition) for each in candidates]
    if not candidates:
        return backtests
    weights = _weights(frozenset().union(*conditions), stream())
    needed = [FITS * sum(weights.get(word, 0) for word in words) for words in conditions]
    with_word: dict[str, list[int]] = {word: [] for word in weights}
    for number, words in enumerate(conditions):
        for word in words & weights.keys():
            with_word[word].append(number)
    for trajectory in stream():
        matched: Counter[int] = Counter()
        for word in _met(trajectory) & weights.keys():
            for number in with_word[word]:
                matched[number] += weights[word]
        for number, weight in matched.items():
            if weight >= needed[number]:
                backtests[number].note(trajectory)
    return backtests


def _weights(words: frozenset[str], trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Return the weight of each of the words that occurs at all."""
    number, having = 0, Counter[str]()
    for trajectory in trajectories:
        number += 1
        having.update(_met(trajectory) & words)
    return {
        word: max(1, round(_SCALE * math.log(1 + (number - count + 0.5) / (count + 0.5))))
        for word, count in having.items()
    }


def _met(trajectory: Trajectory) -> frozenset[str]:
    return terms(
        trajectory.task_title,
        trajectory.task_description,
        trajectory.task_type,
        trajectory.error_message,
        trajectory.error_category,
        *dict.fromkeys(trajectory.tools),
    )


def _shows(trajectory: Trajectory, candidate: SkillCandidate) -> bool:
    pattern = candidate.pattern
    if pattern.kind is PatternKind.FAILURE:
        return trajectory.error_category == pattern.key
    return trajectory.error_category is None and trajectory.tools_key == pattern.key
