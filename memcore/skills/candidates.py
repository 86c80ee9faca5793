"""Skill candidates, and the replay of their conditions on past executions before a person is asked to read them."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from memcore.embedding.bm25 import Tokenizer, bare
from memcore.ledger.learning.patterns import Pattern, PatternKind
from memcore.ledger.learning.skills import SkillSource
from memcore.ledger.learning.trajectories import Trajectory
from memcore.procedural.records import LessonText
from memcore.skills.evidence import Evidence, Usual, applied


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCandidate:
    """A pattern, a text that is or would become a skill of all, and the id of its proposal.

    Attributes:
        votes: what came of applying the pattern's lessons; see memcore.skills.evidence.applied.
        sources: the lessons among which the text was chosen.
    """

    pattern_id: str
    approval_id: str
    pattern: Pattern
    lesson: LessonText
    votes: float = 0.0
    sources: tuple[SkillSource, ...] = ()


_TOKENIZER = Tokenizer()


def terms(*texts: str | None) -> frozenset[str]:
    """Return every term of the texts' words, each once."""
    return bare(_TOKENIZER.terms(" ".join(text for text in texts if text)))


#: Share of the weight of a condition's words that an execution must have.
FITS = 0.5

#: Weights are whole numbers, of which a sum does not depend on its order.
_SCALE = 1_000_000


@dataclass(slots=True, kw_only=True)
class BacktestResult:
    """How a candidate did on the past: executions that its condition fits, and those of them that show its pattern.

    A chain is no worse for being called seldom: of its candidate, only executions that have the chain count.

    Attributes:
        confidence: how sure it is that the skill would help (memcore.skills.evidence), not what its lesson's writer
            thought.
    """

    candidate: SkillCandidate
    fits: int = 0
    helped: int = 0
    agents: set[str] = field(default_factory=set)
    confidence: float = 0.0

    @property
    def precision(self) -> float:
        """The share of what it fits that it would have helped; 0.0 when it fits nothing."""
        return self.helped / self.fits if self.fits else 0.0

    @property
    def recall(self) -> float:
        """The share of the pattern's executions that it fits; counted later than they were, so never above 1.0."""
        return min(1.0, self.helped / self.candidate.pattern.occurrences)

    @property
    def rank(self) -> tuple[float, int, str]:
        """The place among all: the surest first, then the most frequent, then by id."""
        return -self.confidence, -self.candidate.pattern.occurrences, self.candidate.pattern_id

    def note(self, trajectory: Trajectory) -> None:
        """Count an execution that the condition fits; of a chain's, only one that has the chain."""
        if not _has_key(trajectory, self.candidate.pattern):
            return
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
    if not candidates:
        return backtests
    words = [terms(each.lesson.condition) for each in candidates]
    ended, begun, usual = _Words(), _Words(), Usual()
    every = frozenset().union(*words)
    for trajectory in stream():
        usual.note(trajectory)
        task = _task(trajectory)
        begun.note(task & every)
        ended.note((task | _error(trajectory)) & every)
    conditions, cases = _Conditions(words, ended.weights()), _Conditions(words, begun.weights())
    evidence = [Evidence(kind=each.pattern.kind) for each in candidates]
    with_key = _with_key(candidates)
    for trajectory in stream():
        task = _task(trajectory)
        for number in conditions.fitted(task | _error(trajectory)):
            backtests[number].note(trajectory)
        met = cases.fitted(task)
        failed = with_key.get((PatternKind.FAILURE, trajectory.error_category), set())
        tried = with_key.get((PatternKind.SUCCESS, trajectory.tools_key), set())
        for number in met | failed | tried:
            is_shown, is_tried = _shows(trajectory, candidates[number]), number in tried
            evidence[number].note(trajectory, is_shown=is_shown, is_tried=is_tried, is_met=number in met)
    for backtest, found in zip(backtests, evidence, strict=True):
        backtest.confidence = applied(found.confidence(usual), backtest.candidate.votes)
    return backtests


class _Words:
    """In how many executions words occur."""

    def __init__(self) -> None:
        self._executions = 0
        self._having = Counter[str]()

    def note(self, words: frozenset[str]) -> None:
        """Count an execution's words."""
        self._executions += 1
        self._having.update(words)

    def weights(self) -> dict[str, int]:
        """Return the weight of each word that occurs at all."""
        number = self._executions
        return {
            word: max(1, round(_SCALE * math.log(1 + (number - count + 0.5) / (count + 0.5))))
            for word, count in self._having.items()
        }


class _Conditions:
    """The conditions of many lessons, each a set of words with weights."""

    def __init__(self, conditions: Sequence[frozenset[str]], weights: dict[str, int]) -> None:
        self._weights = weights
        self._needed = [FITS * sum(weights.get(word, 0) for word in words) for words in conditions]
        self._with_word: dict[str, list[int]] = {word: [] for word in weights}
        for number, words in enumerate(conditions):
            for word in words & weights.keys():
                self._with_word[word].append(number)

    def fitted(self, words: frozenset[str]) -> set[int]:
        """Return the numbers of the conditions that an execution with these words fits."""
        matched: Counter[int] = Counter()
        for word in words & self._weights.keys():
            for number in self._with_word[word]:
                matched[number] += self._weights[word]
        return {number for number, weight in matched.items() if weight >= self._needed[number]}


def _with_key(candidates: Sequence[SkillCandidate]) -> dict[tuple[PatternKind, str | None], set[int]]:
    found: dict[tuple[PatternKind, str | None], set[int]] = {}
    for number, each in enumerate(candidates):
        found.setdefault((each.pattern.kind, each.pattern.key), set()).add(number)
    return found


def _task(trajectory: Trajectory) -> frozenset[str]:
    """Return the words that were known before the execution ended."""
    tools = dict.fromkeys(trajectory.tools)
    return terms(trajectory.task_title, trajectory.task_description, trajectory.task_type, *tools)


def _error(trajectory: Trajectory) -> frozenset[str]:
    return terms(trajectory.error_message, trajectory.error_category)


def _shows(trajectory: Trajectory, candidate: SkillCandidate) -> bool:
    pattern = candidate.pattern
    if pattern.kind is PatternKind.FAILURE:
        return trajectory.error_category == pattern.key
    return trajectory.error_category is None and trajectory.tools_key == pattern.key


def _has_key(trajectory: Trajectory, pattern: Pattern) -> bool:
    return pattern.kind is PatternKind.FAILURE or trajectory.tools_key == pattern.key
