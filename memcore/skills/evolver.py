"""The skill evolver: what many agents have learned becomes a proposal to all, and a person decides on it."""

import asyncio
import logging
import threading
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from memcore.clock import Clock
from memcore.config.learning import EvolverConfig
from memcore.errors import (
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryNotFoundError,
)
from memcore.jobs.outcomes import Dead, Done, Outcome, Skipped, Snooze, Tell, untold
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.learning.skill_cycles import Cycle, SkillCycles
from memcore.ledger.ledger import Ledger
from memcore.models.approval import MAX_SUPERSEDED, Approval, ApprovalNeed, Proposal, Superseded
from memcore.skills.candidates import CycleStage, Proposals, SkillEvent, Sources
from memcore.skills.publication import promotion, superseded_skill
from memcore.skills.replay import Trial
from memcore.skills.report import MAX_LISTED, Conflict, EvolverReport
from memcore.skills.rivals import Stand
from memcore.skills.survey import Filings, Findings, Survey

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


#: How often it is given: ten may fail before the sweep takes the cycle's message for lost.
PULSE = timedelta(minutes=1)


class SignOfLife:
    """Say that a cycle is worked on while the block runs; a thread says so again and again.

    It keeps a long cycle from taking every process of its worker. It is no lease: two may work on one cycle, and what
    they do is done once all the same.

    Args:
        cycles: where it is said.
        company: whose cycle.
        cycle_id: the cycle.
        pulse: time between two signs.
    """

    def __init__(self, cycles: SkillCycles, company: str, cycle_id: str, *, pulse: timedelta = PULSE) -> None:
        self._cycles = cycles
        self._about = (company, cycle_id)
        self._pulse_seconds = pulse.total_seconds()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"cycle-{cycle_id}", daemon=True)

    def __enter__(self) -> Self:
        """Say so for the first time."""
        self._cycles.rung(*self._about)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Fall silent."""
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._pulse_seconds):
            # A ledger that is away now is there at the next beat, and a message too many does no harm.
            with suppress(MemoryError):
                self._cycles.rung(*self._about)


#: Wait before a paused cycle is looked at again.
PAUSED_DELAY = timedelta(minutes=1)


class Evolver(Protocol):
    """Looks at a cycle's window and files proposals; SkillEvolver is the one that ships."""

    async def run(self, cycle: Cycle, *, tell: Tell) -> EvolverReport:
        """File the cycle's proposals, which doing it again does not double, and return the report."""
        ...


class CycleService:
    """Carry out the cycles of one company.

    Args:
        ledger: where cycles and the kill switch are.
        evolver: does the work.
        company: whose cycles.
        pulse: time between two signs that a cycle is worked on.
    """

    def __init__(self, ledger: Ledger, evolver: Evolver, *, company: str, pulse: timedelta = PULSE) -> None:
        self._ledger = ledger
        self._evolver = evolver
        self._company = company
        self._pulse = pulse

    async def run(self, cycle_id: str, *, tell: Tell = untold) -> Outcome:
        """Carry out a cycle; whatever happens, calling it again finishes it.

        Args:
            cycle_id: the cycle.
            tell: takes how far it is.

        Returns:
            Done: finished; the facts are the report's counts.
            Skipped: finished already.
            Snooze: maintenance is paused; the cycle waits in its row.
            Dead: the company has no such cycle.

        Raises:
            MemoryError: the ledger is in passing trouble.
        """
        cycle = self._ledger.skill_cycles.get(self._company, cycle_id)
        if cycle is None:
            return Dead(reason=f"cycle_id: {cycle_id!r} names no cycle")
        if cycle.finished_at is not None:
            return Skipped(reason="the cycle is finished already")
        if self._ledger.switches.paused(self._company):
            return Snooze(reason="maintenance is paused for all agents", delay=PAUSED_DELAY)
        with SignOfLife(self._ledger.skill_cycles, self._company, cycle_id, pulse=self._pulse):
            report = await self._evolver.run(cycle, tell=tell)
        # First the proposals, then the row: a crash between the two leaves one more look, which files nothing twice.
        if not self._ledger.skill_cycles.finish(self._company, cycle_id, report.model_dump(mode="json")):
            return Skipped(reason="another worker finished the cycle")
        return Done(facts=counts_of(report))


def counts_of(report: EvolverReport) -> dict[str, int]:
    """Return the report's counts, in its order."""
    return {name: value for name, value in report if isinstance(value, int)}
