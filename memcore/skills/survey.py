"""Mines a cycle's window: earlier proposals of each pattern, the candidates, and the counts of the rest."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count

from memcore import ids
from memcore.clock import Clock
from memcore.config.learning import EvolverConfig
from memcore.jobs import ProgressCallback
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.patterns import Pattern, Window
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.models.approval import Approval, ApprovalNeed, ApprovalState
from memcore.skills.candidates import BacktestResult, SkillCandidate, backtest_candidate
from memcore.skills.publication import ORG_PROMOTION
from memcore.skills.report import CycleStage
from memcore.skills.supersession import CandidateStanding, PendingCandidates, medoid, standings_of, waiting


def approval_id_of(company: str, pattern_id: str, number: int) -> str:
    """Return the id of a pattern's proposal; the same proposal of the same pattern is filed once."""
    return ids.approval_id(company=company, action=ORG_PROMOTION, cause=f"{pattern_id}:{number}")


#: Lessons among which one is chosen, each of another agent.
MAX_LESSONS = 32

#: Candidates tried on the past in one cycle, the surest; the rest is left to the next one.
MAX_BACKTESTS = 256


@dataclass(slots=True, kw_only=True)
class Findings:
    """The findings of a cycle: the report's counts, the candidates to propose, the surest first, and what stands.

    Its own proposals may be by an attempt that died, or by another worker at this moment.
    """

    counts: Counter[str] = field(default_factory=Counter)
    own: list[Approval] = field(default_factory=list)
    docket: list[tuple[BacktestResult, CandidateStanding]] = field(default_factory=list)
    waiting: PendingCandidates = field(default_factory=PendingCandidates)
    standing: int = 0


class PatternMining:
    """Reads the window of a cycle; writes nothing."""

    def __init__(self, ledger: Ledger, config: EvolverConfig, *, company: str, clock: Clock) -> None:
        self._ledger = ledger
        self._config = config
        self._company = company
        self._clock = clock

    def of(self, cycle: Cycle, on_progress: ProgressCallback) -> Findings:
        """Return a cycle's findings, and report the progress."""
        found = Findings()
        on_progress(CycleStage.SEARCHING, None)
        candidates = self._candidates(cycle, found)
        stream = partial(
            self._ledger.trajectories.stream, self._company, since=cycle.window_start, until=cycle.window_end
        )
        backtests = backtest_candidate(candidates, _watched(stream, found.counts["trajectories_analyzed"], on_progress))
        passed = sorted(filter(self._is_proven, backtests), key=lambda backtest: backtest.candidate.rank)
        found.counts["skipped_by_replay"] = len(backtests) - len(passed)
        standing = standings_of([backtest.candidate for backtest in passed], self._ledger.skills, company=self._company)
        found.waiting = waiting(self._ledger.approvals, company=self._company, now=self._clock())
        # After what waits was read: another worker at this cycle may have filed since the candidates were listed.
        docket = zip(passed, standing, strict=True)
        found.docket = [each for each in docket if not self._is_filed(each[0].candidate, cycle, found)]
        found.standing = self._ledger.skills.count(self._company)
        return found

    def _candidates(self, cycle: Cycle, found: Findings) -> list[SkillCandidate]:
        config, counts = self._config, found.counts
        window = Window(
            since=cycle.window_start,
            until=cycle.window_end,
            min_agents=config.min_agents_seen_pattern,
            min_confidence=config.min_confidence_for_org_promotion,
        )
        tally = self._ledger.patterns.tally(self._company, window)
        counts["trajectories_analyzed"] = self._ledger.trajectories.count(
            self._company, since=cycle.window_start, until=cycle.window_end
        )
        counts["patterns_found"] = tally.found
        counts["skipped_below_agent_threshold"] = tally.found - tally.shared
        counts["skipped_low_confidence"] = tally.shared - tally.sure
        candidates: list[SkillCandidate] = []
        looked_at = 0
        for pattern in self._ledger.patterns.surest(self._company, window):
            if len(candidates) == MAX_BACKTESTS:
                break
            looked_at += 1
            candidate = self._candidate(pattern, cycle, found)
            if candidate is not None:
                candidates.append(candidate)
        # Executions may have arrived since they were counted.
        counts["postponed"] = max(0, tally.sure - looked_at)
        return candidates

    def _candidate(self, pattern: Pattern, cycle: Cycle, found: Findings) -> SkillCandidate | None:
        pattern_id = ids.pattern_id(company=self._company, kind=str(pattern.kind), key=pattern.key)
        filing = self._next_filing(pattern_id, cycle_id=cycle.cycle_id)
        if isinstance(filing, Approval):
            _noted(filing, cycle, found)
            return None
        lesson = medoid(self._lessons(pattern, cycle))
        if lesson is None:
            found.counts["skipped_without_lesson"] += 1
            return None
        return SkillCandidate(pattern_id=pattern_id, approval_id=filing, pattern=pattern, lesson=lesson)

    def _next_filing(self, pattern_id: str, *, cycle_id: str) -> str | Approval:
        """Return the id under which a pattern may be proposed next, or the proposal that prevents it.

        Each proposal of a pattern has a number, from 0. It waits behind one of this cycle's own, a pending one,
        one being carried out, and for a window behind one that a person refused or took back.
        """
        now, number = self._clock(), 0
        while True:
            approval_id = approval_id_of(self._company, pattern_id, number)
            found = self._ledger.approvals.get(self._company, approval_id)
            if found is None:
                return approval_id
            if found.proposal.details.get("cycle_id") == cycle_id or self._is_closed(found, now):
                return found
            number += 1

    def _is_closed(self, approval: Approval, now: datetime) -> bool:
        match approval.state:
            case ApprovalState.PENDING:
                return now < approval.expires_at
            case ApprovalState.APPROVED:
                return approval.needs is ApprovalNeed.EFFECT
            case ApprovalState.EXPIRED:
                return False
            case ApprovalState.REJECTED:
                return self._is_recent(approval.decided_at, now)
            case ApprovalState.UNDONE:
                return self._is_recent(approval.undone_at, now)

    def _is_recent(self, decided_at: datetime | None, now: datetime) -> bool:
        return decided_at is not None and now - decided_at < timedelta(days=self._config.window_days)

    def _is_filed(self, candidate: SkillCandidate, cycle: Cycle, found: Findings) -> bool:
        filing = self._ledger.approvals.get(self._company, candidate.approval_id)
        if filing is not None:
            _noted(filing, cycle, found)
        return filing is not None

    def _lessons(self, pattern: Pattern, cycle: Cycle) -> Sequence[Lesson]:
        window = {"since": cycle.window_start, "until": cycle.window_end}
        of_pattern = self._ledger.lessons.of_pattern
        return of_pattern(self._company, pattern.kind, pattern.key, **window, limit=MAX_LESSONS)

    def _is_proven(self, backtest: BacktestResult) -> bool:
        config = self._config
        return backtest.precision >= config.min_precision and len(backtest.agents) >= config.min_agents_seen_pattern


def _noted(filing: Approval, cycle: Cycle, found: Findings) -> None:
    if filing.proposal.details.get("cycle_id") == cycle.cycle_id:
        found.own.append(filing)
    else:
        found.counts["skipped_known"] += 1


def _watched(
    stream: Callable[[], Iterator[Trajectory]], number: int, on_progress: ProgressCallback
) -> Callable[[], Iterator[Trajectory]]:
    """Return a stream that reports its progress; it is read twice."""
    read = count(1)

    def watched() -> Iterator[Trajectory]:
        for trajectory, place in zip(stream(), read, strict=False):
            on_progress(CycleStage.REPLAYING, min(1.0, place / max(1, 2 * number)))
            yield trajectory

    return watched
