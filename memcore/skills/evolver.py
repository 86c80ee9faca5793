"""The skill evolver: what many agents have learned becomes a proposal to all, and a person decides on it."""

import asyncio
import logging
from datetime import timedelta

from memcore.approval_models import MAX_SUPERSEDED, Approval, ApprovalNeed, Proposal, Superseded
from memcore.clock import Clock
from memcore.config.evolver import EvolverConfig
from memcore.errors import MemoryNotFoundError
from memcore.jobs.progress import Tell, untold
from memcore.ledger.pattern import PatternKind
from memcore.ledger.skill_cycle import Cycle
from memcore.skills.cycle_stage import CycleStage
from memcore.skills.events import SkillEvent
from memcore.skills.filings import Filings
from memcore.skills.promotion import promotion, superseded_skill
from memcore.skills.replay import Trial
from memcore.skills.report import MAX_LISTED, Conflict, EvolverReport
from memcore.skills.rivals import Stand
from memcore.skills.sources import Proposals, Sources
from memcore.skills.survey import Findings, Survey

_log = logging.getLogger(__name__)


class SkillEvolver:
    """Look at a window of executions, and propose to all agents what several of them have learned.

    It can propose and nothing else: what it is given to read has no call that writes, and no backend is among it. The
    same cycle may come again, also after half of it: what it has filed stands, and is not filed twice.

    Args:
        ledger: what is read.
        approvals: where proposals are filed.
        config: the bounds.
        company: whose agents.
        clock: the time.
    """

    def __init__(
        self, ledger: Sources, approvals: Proposals, config: EvolverConfig, *, company: str, clock: Clock
    ) -> None:
        rest = timedelta(days=config.window_days)
        filings = Filings(ledger.approvals, company=company, rest=rest, clock=clock)
        self._survey = Survey(ledger, filings, config, company=company, clock=clock)
        self._log_of_skills = ledger.shared_log
        self._approvals = approvals
        self._config = config
        self._company = company

    async def run(self, cycle: Cycle, *, tell: Tell = untold) -> EvolverReport:
        """Carry out a cycle and return what came of it; empty when the policy has the evolver switched off.

        Args:
            cycle: the cycle.
            tell: takes how far it is.

        Raises MemoryError when a database fails; the cycle may come again then.
        """
        about = {"company": self._company, "cycle_id": cycle.cycle_id}
        if not self._config.enabled:
            _log.info(SkillEvent.SKILL_EVOLVER_DISABLED, extra=about)
            return _report(cycle, Findings(), ())
        _log.info(SkillEvent.SKILL_EVOLVER_CYCLE_START, extra=about)
        try:
            found = await asyncio.to_thread(self._survey.of, cycle, tell)
            report = await self._filed(cycle, found, tell)
        except Exception as error:
            _log.warning(SkillEvent.SKILL_EVOLVER_CYCLE_FAILED, extra={**about, "error": type(error).__name__})
            raise
        counts = report.model_dump(exclude={"cycle_id", "window_start", "window_end", "conflict_list"})
        _log.info(SkillEvent.SKILL_EVOLVER_CYCLE_COMPLETE, extra={**about, **counts})
        return report

    async def _filed(self, cycle: Cycle, found: Findings, tell: Tell) -> EvolverReport:
        counts, conflicts = found.counts, list[Conflict]()
        for approval in found.own:
            _count(approval, found)
        for number, (trial, stand) in enumerate(found.docket):
            tell(CycleStage.FILING, number / len(found.docket))
            against = [*stand.conflicts, *found.waiting.conflicts(stand.reading)]
            if stand.is_settled:
                counts["skipped_known"] += 1
            elif against:
                counts["conflicts"] += 1
                conflicts += self._told(cycle, stand, against)
            elif stand.is_repeat or found.waiting.says(stand.reading):
                counts["skipped_known"] += 1
            elif counts["proposals_emitted"] >= self._config.max_proposals_per_cycle:
                counts["postponed"] += 1
            else:
                await self._file(cycle, trial, stand, found)
        return _report(cycle, found, conflicts)

    async def _file(self, cycle: Cycle, trial: Trial, stand: Stand, found: Findings) -> None:
        supersedes = self._superseded(stand)
        if found.standing + found.waiting.growth + 1 - len(supersedes) > self._config.max_org_entries:
            found.counts["skipped_full"] += 1
            return
        proposal = _proposal(cycle, trial, supersedes)
        approval = await self._approvals.propose(trial.candidate.approval_id, proposal)
        if approval.proposal.details.get("cycle_id") != cycle.cycle_id:
            found.counts["skipped_known"] += 1  # another cycle filed it at this moment
            return
        _count(approval, found)
        about = {"company": self._company, "approval_id": approval.approval_id, "cycle_id": cycle.cycle_id}
        pattern_id = trial.candidate.pattern_id
        _log.info(SkillEvent.SKILL_EVOLVER_PROPOSAL_EMITTED, extra={**about, "pattern_id": pattern_id})
        for each in supersedes:
            _log.info(SkillEvent.ORG_SKILL_SUPERSEDED, extra={**about, "skill_id": each.id})

    def _superseded(self, stand: Stand) -> list[Superseded]:
        found: list[Superseded] = []
        for skill_id in stand.supersedes[:MAX_SUPERSEDED]:
            try:
                found.append(superseded_skill(self._log_of_skills, self._company, skill_id))
            except MemoryNotFoundError:
                continue  # taken back since it was read
        return found

    def _told(self, cycle: Cycle, stand: Stand, against: list[str]) -> list[Conflict]:
        found = [Conflict(pattern_id=stand.candidate.pattern_id, standing_id=each) for each in against]
        about = {"company": self._company, "cycle_id": cycle.cycle_id}
        for each in found[:MAX_LISTED]:
            _log.warning(SkillEvent.SKILL_EVOLVER_CONFLICT_DETECTED, extra={**about, **each.model_dump()})
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


def _proposal(cycle: Cycle, trial: Trial, supersedes: list[Superseded]) -> Proposal:
    candidate, pattern = trial.candidate, trial.candidate.pattern
    shows = "failures of one kind" if pattern.kind is PatternKind.FAILURE else "successes with the same tools"
    return promotion(
        candidate.lesson.model_copy(update={"confidence": candidate.confidence}),
        title=f"A skill from {pattern.occurrences} {shows}, of {pattern.agents} agents ({candidate.pattern_id[:8]})",
        pattern_id=candidate.pattern_id,
        cycle_id=cycle.cycle_id,
        supersedes=supersedes,
        figures={
            "agents": pattern.agents,
            "occurrences": pattern.occurrences,
            "confidence": round(candidate.confidence, 4),
            "precision": round(trial.precision, 4),
            "recall": round(trial.recall, 4),
            "agents_covered": len(trial.agents),
            "lesson_confidence": round(candidate.lesson.confidence, 4),
        },
    )
