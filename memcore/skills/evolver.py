"""The skill evolver, its cycles and their lease: lessons of many agents become proposals on which a person decides."""

import asyncio
import logging
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Protocol, Self

from memcore.clock import Clock
from memcore.company import CompanyContext
from memcore.config.learning import EvolverConfig
from memcore.errors import MemoryNotFoundError
from memcore.jobs import Done, Outcome, ProgressCallback, no_progress
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import LEASE_RENEWAL, Attempt
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.models.approval import MAX_SUPERSEDED, Approval, ApprovalNeed, Proposal, Superseded
from memcore.skills.candidates import BacktestResult
from memcore.skills.publication import SkillApprovals, promotion, superseded_skill
from memcore.skills.report import MAX_LISTED, Conflict, CycleStage, EvolverReport
from memcore.skills.supersession import CandidateStanding
from memcore.skills.survey import Findings, PatternMining
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)


class Proposals(Protocol):
    """Files proposals; see memcore.approvals."""

    async def propose(self, approval_id: str, proposal: Proposal, /) -> Approval:
        """File one, and return it, or what was filed under this id before."""
        ...


class SkillEvolver:
    """Reads a window of executions, and proposes as skills what several agents have learned.

    It can only propose: it reads the ledger, and no backend is among what it is given. A cycle may be
    repeated, also after half of it: filed proposals stay, and none is filed twice.
    """

    def __init__(
        self, ledger: Ledger, approvals: Proposals, config: EvolverConfig, *, company: str, clock: Clock
    ) -> None:
        self._mining = PatternMining(ledger, config, company=company, clock=clock)
        self._log_of_skills = ledger.shared_log
        self._approvals = approvals
        self._config = config
        self._company = company

    async def run(self, cycle: Cycle, *, on_progress: ProgressCallback = no_progress) -> EvolverReport:
        """Carry out a cycle and return its report; empty when the policy has the evolver switched off.

        Raises MemoryError when a database fails; the cycle may come again then.
        """
        about = {"company": self._company, "cycle_id": cycle.cycle_id}
        if not self._config.enabled:
            _log.info(Event.SKILL_EVOLVER_DISABLED, extra=about)
            return _report(cycle, Findings(), ())
        _log.info(Event.SKILL_EVOLVER_CYCLE_START, extra=about)
        try:
            found = await asyncio.to_thread(self._mining.of, cycle, on_progress)
            report = await self._filed(cycle, found, on_progress)
        except Exception as error:
            _log.warning(Event.SKILL_EVOLVER_CYCLE_FAILED, extra={**about, "error": type(error).__name__})
            raise
        counts = report.model_dump(exclude={"cycle_id", "window_start", "window_end", "conflict_list"})
        _log.info(Event.SKILL_EVOLVER_CYCLE_COMPLETE, extra={**about, **counts})
        return report

    async def _filed(self, cycle: Cycle, found: Findings, on_progress: ProgressCallback) -> EvolverReport:
        counts, conflicts = found.counts, list[Conflict]()
        for approval in found.own:
            _count(approval, found)
        for number, (backtest, standing) in enumerate(found.docket):
            on_progress(CycleStage.FILING, number / len(found.docket))
            against = [*standing.conflicts, *found.waiting.conflicts(standing.reading)]
            if standing.is_settled:
                counts["skipped_known"] += 1
            elif against:
                counts["conflicts"] += 1
                conflicts += self._conflicts_of(cycle, standing, against)
            elif standing.is_repeat or found.waiting.says(standing.reading):
                counts["skipped_known"] += 1
            elif counts["proposals_emitted"] >= self._config.max_proposals_per_cycle:
                counts["postponed"] += 1
            else:
                await self._file(cycle, backtest, standing, found)
        return _report(cycle, found, conflicts)

    async def _file(self, cycle: Cycle, backtest: BacktestResult, standing: CandidateStanding, found: Findings) -> None:
        supersedes = self._superseded(standing, found)
        if found.standing + found.waiting.growth + 1 - len(supersedes) > self._config.max_org_entries:
            found.counts["skipped_full"] += 1
            return
        proposal = _proposal(cycle, backtest, supersedes)
        approval = await self._approvals.propose(backtest.candidate.approval_id, proposal)
        if approval.proposal.details.get("cycle_id") != cycle.cycle_id:
            found.counts["skipped_known"] += 1  # another cycle filed it at this moment
            return
        _count(approval, found)
        about = {"company": self._company, "approval_id": approval.approval_id, "cycle_id": cycle.cycle_id}
        pattern_id = backtest.candidate.pattern_id
        _log.info(Event.SKILL_EVOLVER_PROPOSAL_EMITTED, extra={**about, "pattern_id": pattern_id})
        for each in supersedes:
            _log.info(Event.ORG_SKILL_SUPERSEDED, extra={**about, "skill_id": each.id})

    def _superseded(self, standing: CandidateStanding, found: Findings) -> list[Superseded]:
        superseded: list[Superseded] = []
        for skill_id in standing.supersedes[:MAX_SUPERSEDED]:
            # Of one that stands in the place of a distrusted skill, that skill is the one that is published.
            published = found.seen.standing.get(skill_id, skill_id)
            try:
                superseded.append(superseded_skill(self._log_of_skills, self._company, published))
            except MemoryNotFoundError:
                continue  # taken back since it was read
        return superseded

    def _conflicts_of(self, cycle: Cycle, standing: CandidateStanding, against: list[str]) -> list[Conflict]:
        found = [Conflict(pattern_id=standing.candidate.pattern_id, standing_id=each) for each in against]
        about = {"company": self._company, "cycle_id": cycle.cycle_id}
        for each in found[:MAX_LISTED]:
            _log.warning(Event.SKILL_EVOLVER_CONFLICT_DETECTED, extra={**about, **each.model_dump()})
        return found


def _count(approval: Approval, found: Findings) -> None:
    found.counts["proposals_emitted"] += 1
    found.counts["supersessions"] += len(approval.proposal.supersedes)
    if approval.needs in {ApprovalNeed.WORD, ApprovalNeed.EFFECT}:
        found.waiting.add(approval)


def _report(cycle: Cycle, found: Findings, conflicts: "list[Conflict] | tuple[()]") -> EvolverReport:
    return EvolverReport(
        cycle_id=cycle.cycle_id,
        window_start=cycle.window_start,
        window_end=cycle.window_end,
        conflict_list=tuple(conflicts[:MAX_LISTED]),
        **found.counts,
    )


def _proposal(cycle: Cycle, backtest: BacktestResult, supersedes: list[Superseded]) -> Proposal:
    candidate, pattern = backtest.candidate, backtest.candidate.pattern
    shows = "failures of one kind" if pattern.kind is PatternKind.FAILURE else "successes with the same tools"
    return promotion(
        candidate.lesson.model_copy(update={"confidence": backtest.confidence}),
        title=f"A skill from {pattern.occurrences} {shows}, of {pattern.agents} agents ({candidate.pattern_id[:8]})",
        pattern_id=candidate.pattern_id,
        cycle_id=cycle.cycle_id,
        supersedes=supersedes,
        sources=candidate.sources,
        figures={
            "agents": pattern.agents,
            "occurrences": pattern.occurrences,
            "confidence": round(backtest.confidence, 4),
            "precision": round(backtest.precision, 4),
            "recall": round(backtest.recall, 4),
            "agents_covered": len(backtest.agents),
            "votes": round(candidate.votes, 4),
            "lesson_confidence": round(candidate.lesson.confidence, 4),
        },
    )


class Evolver(Protocol):
    """Carries out a cycle; SkillEvolver is the one that ships."""

    async def run(self, cycle: Cycle, *, on_progress: ProgressCallback) -> EvolverReport:
        """File the cycle's proposals, none of them twice, and return the report."""
        ...


@dataclass(frozen=True, eq=False)
class CycleService:
    """Carries out the cycles of one company."""

    ledger: Ledger
    evolver: Evolver
    _: KW_ONLY
    company: str
    renewal: timedelta = LEASE_RENEWAL

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        config, approvals = context.policy.memory.procedural.evolver, SkillApprovals.of(context)
        evolver = SkillEvolver(context.ledger, approvals, config, company=context.company, clock=context.clock)
        return cls(context.ledger, evolver, company=context.company)

    async def run(self, cycle_id: str, *, on_progress: ProgressCallback = no_progress) -> Outcome:
        """Carry out a cycle; whatever happens, calling it again finishes it.

        Returns:
            Done: finished; the facts are the report's counts.
            Skipped: finished already, or another worker has it.
            Deferred: maintenance is paused, or a database fails; the cycle waits in its row.
            Dead: the company has no such cycle, or its attempts are used up.
        """
        cycles = self.ledger.skill_cycles
        with Attempt(cycles, self.company, cycle_id, switch=self._check_switch, renewal=self.renewal) as attempt:
            report = await self.evolver.run(attempt.claim(), on_progress=on_progress)
            # Proposals first, then the row: a crash between the two costs one more look, which files nothing twice.
            cycles.finish(self.company, cycle_id, attempt.token, report.model_dump(mode="json"))
            attempt.outcome = Done(facts={name: value for name, value in report if isinstance(value, int)})
        return attempt.outcome

    def _check_switch(self, _cycle: Cycle) -> None:
        check_kill_switch(self.ledger.agents, self.company)
