"""How sure it is that a skill would help: bounds on shares, lift over what is usual, outcomes of applications.

The attributable share is that of O. S. Miettinen, "Proportion of disease caused or prevented by a given exposure, trait
or intervention", American Journal of Epidemiology 99 (1974).
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from memcore.ledger.learning.bounds import lower_bound, upper_bound
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.learning.trajectories import Trajectory

#: Executions of one agent that count, of those that show a pattern: no agent alone makes it sure.
AGENT_COUNTS = 3

#: How much likelier an agent whom a lesson always helps makes it, in odds, that the lesson helps.
_VOTE = 3.0


def attributable(hits: Mapping[str, int], executions: Mapping[str, int], *, usual_hits: int, usual: int) -> float:
    """Return the least share of a case's failures that the case itself makes: 1 - 1 / lift, 0.0 without lift.

    The lift is the case's rate of failures over the usual one, of the rest. Where the rest is too little to compare
    with, the case's rate decides, less what the rest surely fails. ``hits`` are the case's failures by agent, of its
    ``executions`` by agent.
    """
    # Of an agent that fails often, its successes are scaled with its failures: to fail again lowers nothing.
    scales = {each: min(1.0, AGENT_COUNTS / number) for each, number in hits.items() if number}
    rate = _least_share(hits, executions, scales)
    if rate <= 0.0:
        return 0.0
    return max(0.0, 1.0 - upper_bound(usual_hits, usual) / rate, rate - lower_bound(usual_hits, usual))


def success_share(hits: Mapping[str, int], executions: Mapping[str, int], *, usual_hits: int, usual: int) -> float:
    """Return the least share of a chain's executions that succeed; 0.0 unless it surely beats the usual share.

    ``hits`` and ``executions`` are the chain's, by agent.
    """
    scales = {each: min(1.0, AGENT_COUNTS / number) for each, number in executions.items() if number}
    share = _least_share(hits, executions, scales)
    return share if share > upper_bound(usual_hits, usual) else 0.0


def _least_share(hits: Mapping[str, int], executions: Mapping[str, int], scales: Mapping[str, float]) -> float:
    # Sorted: the sum of floats must not depend on the order in which executions were read.
    agents = [(each, scales.get(each, 1.0)) for each in sorted(executions)]
    counted = math.fsum(hits.get(each, 0) * scale for each, scale in agents)
    return lower_bound(counted, math.fsum(executions[each] * scale for each, scale in agents))


@dataclass(slots=True, kw_only=True)
class Usual:
    """All executions of a window, by task type and agent, and by task type those of them that succeeded."""

    executions: dict[str | None, Counter[str]] = field(default_factory=dict)
    successes: Counter[str | None] = field(default_factory=Counter)

    def note(self, trajectory: Trajectory) -> None:
        """Count an execution."""
        self.executions.setdefault(trajectory.task_type, Counter())[trajectory.agent_id] += 1
        self.successes[trajectory.task_type] += trajectory.error_category is None


@dataclass(slots=True, kw_only=True)
class Evidence:
    """What speaks for a pattern: executions that could have shown it, and those that did.

    Of failures, a case is a task type, or what the condition fits of the task and the tools: known before a failure.

    Attributes:
        shown: executions that show the pattern, by task type and agent.
        tried: of a chain, executions with it, by task type and agent.
        met: executions that the condition fits, without those of the chain, by task type and agent; and those of them
            with the pattern, by agent.
    """

    kind: PatternKind
    shown: dict[str | None, Counter[str]] = field(default_factory=dict)
    tried: dict[str | None, Counter[str]] = field(default_factory=dict)
    met: dict[str | None, Counter[str]] = field(default_factory=dict)
    met_hits: Counter[str] = field(default_factory=Counter)
    met_successes: Counter[str | None] = field(default_factory=Counter)

    def note(self, trajectory: Trajectory, *, is_shown: bool, is_tried: bool, is_met: bool) -> None:
        """Count an execution that shows the pattern, has its chain, or that the condition fits."""
        kind, agent_id = trajectory.task_type, trajectory.agent_id
        if is_shown:
            self.shown.setdefault(kind, Counter())[agent_id] += 1
        if is_tried:
            self.tried.setdefault(kind, Counter())[agent_id] += 1
        elif is_met:
            self.met.setdefault(kind, Counter())[agent_id] += 1
            self.met_hits[agent_id] += is_shown
            self.met_successes[kind] += trajectory.error_category is None

    def confidence(self, usual: Usual) -> float:
        """Return how sure it is, 0 to 1, before anything was applied."""
        return self._of_failures(usual) if self.kind is PatternKind.FAILURE else self._of_successes(usual)

    def _of_failures(self, usual: Usual) -> float:
        every, everyone = _total(usual.executions), _total(self.shown)
        cases = [(self.met_hits, _by_agent(self.met))]
        cases += [(hits, usual.executions[kind]) for kind, hits in self.shown.items() if kind is not None]
        return max(
            attributable(hits, of, usual_hits=max(0, everyone - hits.total()), usual=every - of.total())
            for hits, of in cases
        )

    def _of_successes(self, usual: Usual) -> float:
        # Other ways of doing the same: in executions without a type, the condition says what the same is.
        of, succeeded = self.met.get(None, Counter()).total(), self.met_successes[None]
        for kind, tried in self.tried.items():
            if kind is not None:
                of += usual.executions[kind].total() - tried.total()
                succeeded += usual.successes[kind] - self.shown.get(kind, Counter()).total()
        return success_share(_by_agent(self.shown), _by_agent(self.tried), usual_hits=succeeded, usual=of)


def _by_agent(counts: Mapping[str | None, Counter[str]]) -> Counter[str]:
    return sum(counts.values(), Counter())


def _total(counts: Mapping[str | None, Counter[str]]) -> int:
    return sum(each.total() for each in counts.values())


def applied(confidence: float, votes: float) -> float:
    """Return a confidence after applications, by Bayes' rule: each agent votes from -1, it failed, to 1, it helped.

    What has no lift has no confidence that votes could raise.
    """
    if not votes or confidence <= 0.0 or confidence >= 1.0:
        return confidence
    odds = math.log(confidence / (1 - confidence)) + votes * math.log(_VOTE)
    return 1 / (1 + math.exp(-odds)) if odds > 0 else math.exp(odds) / (1 + math.exp(odds))
