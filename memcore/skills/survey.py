"""What a cycle finds before anything is filed: the candidates worth a person's time, and why others are not."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from memcore import ids
from memcore.approval_models import Approval
from memcore.clock import Clock
from memcore.config.evolver import EvolverConfig
from memcore.jobs.progress import Tell
from memcore.ledger.lesson import Lesson
from memcore.ledger.pattern import Pattern, PatternKind
from memcore.ledger.patterns import Window
from memcore.ledger.skill_cycle import Cycle
from memcore.ledger.trajectory import Trajectory
from memcore.skills.candidate import Candidate
from memcore.skills.cycle_stage import CycleStage
from memcore.skills.filings import Filings
from memcore.skills.medoid import medoid
from memcore.skills.replay import Trial, replay
from memcore.skills.rivals import Stand, Waiting, stands, waiting
from memcore.skills.sources import Sources

#: Lessons among which one is chosen, each of another agent.
MAX_LESSONS = 32

#: Candidates tried on the past in one cycle, the surest; the rest is left to the next one.
MAX_TRIALS = 256


@dataclass(slots=True, kw_only=True)
class Findings:
    """What was found.

    Attributes:
        counts: of the report, by its fields.
        own: what this cycle has filed: before it died, if it did, or by another worker at this moment.
        docket: what may be proposed, the surest first.
        waiting: the proposals that wait.
        standing: skills that stand.
    """

    counts: Counter[str] = field(default_factory=Counter)
    own: list[Approval] = field(default_factory=list)
    docket: list[tuple[Trial, Stand]] = field(default_factory=list)
    waiting: Waiting = field(default_factory=Waiting)
    standing: int = 0


class Survey:
    """Read the window of a cycle; nothing is written.

    Args:
        sources: what is read.
        filings: what was proposed before.
        config: the bounds.
        company: whose.
        clock: the time.
    """

    def __init__(
        self, sources: Sources, filings: Filings, config: EvolverConfig, *, company: str, clock: Clock
    ) -> None:
        self._sources = sources
        self._filings = filings
        self._config = config
        self._company = company
        self._clock = clock

    def of(self, cycle: Cycle, tell: Tell) -> Findings:
        """Return what a cycle finds, and tell how far it is."""
        found = Findings()
        tell(CycleStage.SEARCHING, None)
        candidates = self._candidates(cycle, found)
        stream = partial(
            self._sources.trajectories.stream, self._company, since=cycle.window_start, until=cycle.window_end
        )
        trials = replay(candidates, _watched(stream, found.counts["trajectories_analyzed"], tell))
        passed = sorted(filter(self._is_proven, trials), key=lambda trial: trial.candidate.rank)
        found.counts["skipped_by_replay"] = len(trials) - len(passed)
        standing = stands([trial.candidate for trial in passed], self._sources.skills, company=self._company)
        found.waiting = waiting(self._sources.approvals, company=self._company, now=self._clock())
        # After what waits was read: another worker at this cycle may have filed since the candidates were listed.
        docket = zip(passed, standing, strict=True)
        found.docket = [each for each in docket if not self._is_filed(each[0].candidate, cycle, found)]
        found.standing = self._sources.skills.count(self._company)
        return found

    def _candidates(self, cycle: Cycle, found: Findings) -> list[Candidate]:
        config, counts = self._config, found.counts
        window = Window(
            since=cycle.window_start,
            until=cycle.window_end,
            min_agents=config.min_agents_seen_pattern,
            min_confidence=config.min_confidence_for_org_promotion,
        )
        tally = self._sources.patterns.tally(self._company, window)
        counts["trajectories_analyzed"] = self._sources.trajectories.count(
            self._company, since=cycle.window_start, until=cycle.window_end
        )
        counts["patterns_found"] = tally.found
        counts["skipped_below_agent_threshold"] = tally.found - tally.shared
        counts["skipped_low_confidence"] = tally.shared - tally.sure
        candidates: list[Candidate] = []
        looked_at = 0
        for pattern in self._sources.patterns.surest(self._company, window):
            if len(candidates) == MAX_TRIALS:
                break
            looked_at += 1
            candidate = self._candidate(pattern, cycle, found)
            if candidate is not None:
                candidates.append(candidate)
        # Executions may have arrived since they were counted.
        counts["postponed"] = max(0, tally.sure - looked_at)
        return candidates

    def _candidate(self, pattern: Pattern, cycle: Cycle, found: Findings) -> Candidate | None:
        pattern_id = ids.pattern_id(company=self._company, kind=str(pattern.kind), key=pattern.key)
        filing = self._filings.next_of(pattern_id, cycle_id=cycle.cycle_id)
        if isinstance(filing, Approval):
            _noted(filing, cycle, found)
            return None
        lesson = medoid(self._lessons(pattern, cycle))
        if lesson is None:
            found.counts["skipped_without_lesson"] += 1
            return None
        return Candidate(pattern_id=pattern_id, approval_id=filing, pattern=pattern, lesson=lesson)

    def _is_filed(self, candidate: Candidate, cycle: Cycle, found: Findings) -> bool:
        filing = self._sources.approvals.get(self._company, candidate.approval_id)
        if filing is not None:
            _noted(filing, cycle, found)
        return filing is not None

    def _lessons(self, pattern: Pattern, cycle: Cycle) -> Sequence[Lesson]:
        lessons = self._sources.lessons
        of = lessons.of_failures if pattern.kind is PatternKind.FAILURE else lessons.of_successes
        return of(self._company, pattern.key, since=cycle.window_start, until=cycle.window_end, limit=MAX_LESSONS)

    def _is_proven(self, trial: Trial) -> bool:
        config = self._config
        return trial.precision >= config.min_precision and len(trial.agents) >= config.min_agents_seen_pattern


def _noted(filing: Approval, cycle: Cycle, found: Findings) -> None:
    if filing.proposal.details.get("cycle_id") == cycle.cycle_id:
        found.own.append(filing)
    else:
        found.counts["skipped_known"] += 1


def _watched(stream: Callable[[], Iterator[Trajectory]], number: int, tell: Tell) -> Callable[[], Iterator[Trajectory]]:
    """Return a stream that tells how far it is; it is read twice."""
    read = count(1)

    def watched() -> Iterator[Trajectory]:
        for trajectory, place in zip(stream(), read, strict=False):
            tell(CycleStage.REPLAYING, min(1.0, place / max(1, 2 * number)))
            yield trajectory

    return watched
