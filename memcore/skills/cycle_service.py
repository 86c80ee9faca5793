"""Cycles from the ledger to the evolver and back: each is finished once, however many carry it out."""

from datetime import timedelta
from typing import Protocol

from memcore.jobs.outcomes import Dead, Done, Outcome, Skipped, Snooze
from memcore.jobs.progress import Tell, untold
from memcore.ledger.ledger import Ledger
from memcore.ledger.skill_cycle import Cycle
from memcore.skills.report import EvolverReport
from memcore.skills.sign_of_life import PULSE, SignOfLife

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
