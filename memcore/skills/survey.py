"""Mines a cycle's window: earlier proposals of each pattern, the candidates, and the counts of the rest."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from memcore.ledger.learning.skills import ALL_SKILLS, SkillSource, SkillView
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.models.approval import Approval, ApprovalNeed, ApprovalState
from memcore.skills.candidates import BacktestResult, SkillCandidate, backtest_candidate
from memcore.skills.publication import ORG_PROMOTION
from memcore.skills.report import CycleStage
from memcore.skills.supersession import CandidateStanding, PendingCandidates, medoids, standings_of, text_of, waiting


def approval_id_of(company: str, pattern_id: str, number: int) -> str:
    """Return the id of a pattern's proposal; the same proposal of the same pattern is filed once."""
    return ids.approval_id(company=company, action=ORG_PROMOTION, cause=f"{pattern_id}:{number}")


#: Lessons among which one is chosen, each of another agent.
MAX_LESSONS = 32

#: Texts tried of each pattern, those that agree most with all of its lessons.
MAX_TEXTS = 3

#: Patterns tried on the past in one cycle, those of most agents.
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
    seen: SkillView = ALL_SKILLS
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
        # Readers are not shown what is distrusted: a skill of it is none, and what stands in its place is one.
        found = Findings(seen=self._ledger.hidden.of(self._company).seen_skills)
        on_progress(CycleStage.SEARCHING, None)
        texts = self._candidates(cycle, found)
        candidates = [each for of_pattern in texts for each in of_pattern]
        own = self._own_skills(candidates, cycle, found.seen)
        stream = partial(
            self._ledger.trajectories.stream_added, self._company, since=cycle.window_start, until=cycle.window_end
        )
        watched = _watched(stream, found.counts["trajectories_analyzed"], on_progress)
        # A pattern's own skill is tried on the same executions as the text that may take its place.
        results = backtest_candidate([*candidates, *own.values()], watched)
        tried = iter(results)
        backtests = [self._best([next(tried) for _ in of_pattern]) for of_pattern in texts]
        sure = dict(zip(own, (each.confidence for each in results[len(candidates) :]), strict=True))
        proven = [each for each in backtests if self._is_proven(each)]
        least = self._config.min_confidence_for_org_promotion
        passed = sorted((each for each in proven if each.confidence >= least), key=lambda backtest: backtest.rank)
        found.counts["skipped_by_replay"] = len(backtests) - len(proven)
        found.counts["skipped_low_confidence"] = len(proven) - len(passed)
        standing = standings_of(
            passed, self._ledger.skills, company=self._company, since=cycle.window_start, own=sure, seen=found.seen
        )
        found.waiting = waiting(self._ledger.approvals, company=self._company, now=self._clock())
        # After what waits was read: another worker at this cycle may have filed since the candidates were listed.
        docket = zip(passed, standing, strict=True)
        found.docket = [each for each in docket if not self._is_filed(each[0].candidate, cycle, found)]
        found.standing = self._ledger.skills.count(self._company, seen=found.seen)
        return found

    def _candidates(self, cycle: Cycle, found: Findings) -> list[list[SkillCandidate]]:
        config, counts = self._config, found.counts
        window = Window(
            since=cycle.window_start,
            until=cycle.window_end,
            min_agents=config.min_agents_seen_pattern,
        )
        tally = self._ledger.patterns.tally(self._company, window)
        executions, of_window = self._ledger.trajectories, {"since": cycle.window_start, "until": cycle.window_end}
        counts["trajectories_analyzed"] = executions.count_added(self._company, **of_window)
        every = executions.count(self._company, with_interrupted=False, **of_window)
        counts["trajectories_unregistered"] = max(0, every - counts["trajectories_analyzed"])
        counts["patterns_found"] = tally.found
        counts["skipped_below_agent_threshold"] = tally.found - tally.shared
        candidates: list[list[SkillCandidate]] = []
        looked_at = 0
        for pattern in self._ledger.patterns.shared(self._company, window):
            if len(candidates) == MAX_BACKTESTS:
                break
            looked_at += 1
            of_pattern = self._of_pattern(pattern, cycle, found)
            if of_pattern:
                candidates.append(of_pattern)
        # Executions may have arrived since they were counted.
        counts["postponed"] = max(0, tally.shared - looked_at)
        return candidates

    def _of_pattern(self, pattern: Pattern, cycle: Cycle, found: Findings) -> list[SkillCandidate]:
        pattern_id = ids.pattern_id(company=self._company, kind=str(pattern.kind), key=pattern.key)
        filing = self._next_filing(pattern_id, cycle_id=cycle.cycle_id)
        if isinstance(filing, Approval):
            _noted(filing, cycle, found)
            return []
        lessons = self._lessons(pattern, cycle)
        texts = medoids(lessons, most=MAX_TEXTS)
        if not texts:
            found.counts["skipped_without_lesson"] += 1
            return []
        votes = self._votes([each.memory_id for each in lessons if each.memory_id is not None], cycle)
        return [
            SkillCandidate(
                pattern_id=pattern_id,
                approval_id=filing,
                pattern=pattern,
                lesson=text,
                votes=math.fsum(votes.values()),
                sources=tuple(map(SkillSource.of, lessons)),
            )
            for text in texts
        ]

    def _own_skills(
        self, candidates: Sequence[SkillCandidate], cycle: Cycle, seen: SkillView
    ) -> dict[str, SkillCandidate]:
        """Return the active skills of the candidates' patterns by id, as candidates, with votes of their own."""
        patterns = {each.pattern_id: each for each in candidates}
        found: dict[str, SkillCandidate] = {}
        for skill in self._ledger.skills.stream(self._company, seen=seen) if candidates else ():
            candidate, text = patterns.get(skill.pattern_id), text_of(skill)
            if candidate is not None and text is not None:
                # Helping does not protect it from a better text; failing weakens it.
                votes = min(0.0, self._votes([skill.skill_id], cycle).get(skill.skill_id, 0.0))
                found[skill.skill_id] = replace(candidate, lesson=text, votes=votes)
        return found

    def _votes(self, skill_ids: Sequence[str], cycle: Cycle) -> dict[str, float]:
        return self._ledger.skills.votes(self._company, skill_ids, since=cycle.window_start)

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
        of_pattern, hidden = self._ledger.lessons.of_pattern, self._ledger.hidden.of(self._company)
        found = of_pattern(self._company, pattern.kind, pattern.key, **window, limit=MAX_LESSONS)
        return [each for each in found if not hidden.distrusts_lesson(each)]

    def _best(self, tried: Sequence[BacktestResult]) -> BacktestResult:
        """Return the first text of a pattern that the past proves and that is sure enough, or else the first one."""
        least = self._config.min_confidence_for_org_promotion
        return next((each for each in tried if self._is_proven(each) and each.confidence >= least), tried[0])

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
