"""Days of maintenance in an evaluation: its runs by a clock that is moved on, and what they leave of each memory."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from memcore.backends.evidence import terms_of
from memcore.backends.factory import WorkerBackend
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls, sqlite_url
from memcore.errors import MemoryInputError
from memcore.evaluation.asking import AskedAt, Kept
from memcore.jobs import Deferred, Outcome
from memcore.ledger.agents import LENGTHS
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, Run
from memcore.ledger.work_items import WorkState
from memcore.llm.accounting import create_model
from memcore.maintenance.consolidation.answers import SynthesisService
from memcore.maintenance.service import MaintenanceService
from memcore.models.base import Frozen
from memcore.models.memory import ConsolidationInterval
from memcore.records import MemoryRecord, Where

#: Most days of maintenance: a run of every agent each.
MAX_DAYS = 365

#: Times that a run may wait for its model.
_MOST_TURNS = 5

#: Questions that the model has before it.
_ASKED_AT_ONCE = 4

_ONE_DAY = timedelta(days=1)


class MaintenanceDone(Frozen):
    """What maintenance has done to all agents of an evaluation.

    Attributes:
        merged: memories that others replaced, by ``summaries`` of them.
        removed: those that were too old, had ended, or were too many.
        archived: memories whose full text is in the archive.
        live: memories that the store holds.
        refused: groups that the gate left as they were.
        held: runs that wait for a person, and remove nothing until then.
        failed: runs that ended early.
        reason: why the newest of those that are held or failed is.
    """

    merged: int = 0
    summaries: int = 0
    removed: int = 0
    archived: int = 0
    live: int = 0
    refused: int = 0
    held: int = 0
    failed: int = 0
    reason: str | None = None


def read_days(text: str) -> tuple[int, ...]:
    """Return the days of maintenance after which an evaluation asks, in order. Raises MemoryInputError."""
    words = [word.strip() for word in text.split(",")]
    days = {int(word) for word in words if word.isascii() and word.isdecimal() and len(word) <= len(str(MAX_DAYS))}
    if len(days) != len(words) or not all(1 <= each <= MAX_DAYS for each in days):
        raise MemoryInputError("nights", f"must be different numbers from 1 to {MAX_DAYS}, apart by commas")
    return tuple(sorted(days))


async def carried_out(service: MaintenanceService, synthesis: SynthesisService, run: Run) -> Outcome:
    """Carry out a queued run in this process, and ask the model what it waits for; Deferred where that takes longer."""
    company, ledger = run.company, service.ledger
    outcome = await service.run(run.run_id)
    for _ in range(_MOST_TURNS):
        keys = {part.key: part.place for part in ledger.syntheses.of_run(company, run.run_id) if part.is_open}
        if not isinstance(outcome, Deferred) or not keys:
            break
        due = ledger.work.take_due(company=company, keys=keys, limit=len(keys))
        places = [keys[each.key] for each in due if each.key in keys]
        for start in range(0, len(places), _ASKED_AT_ONCE):
            part = places[start : start + _ASKED_AT_ONCE]
            await asyncio.gather(*(synthesis.ask(run.run_id, place) for place in part))
        outcome = await service.run(run.run_id)
    return outcome


@dataclass(frozen=True, slots=True)
class _Heir:
    """The memory that replaced another, and the words that it must say to hold it; none where it says all of it."""

    memory_id: str
    words: frozenset[str]


@dataclass(slots=True, kw_only=True)
class DailyMaintenance:
    """Maintains the agents of an evaluation once a day, as the scheduler would; nothing waits for real time.

    Its ledger is its own: the workers of the stack never see these runs.
    """

    backend: WorkerBackend
    ledger: Ledger
    service: MaintenanceService
    synthesis: SynthesisService
    clock: AskedAt
    interval: ConsolidationInterval
    _replaced: dict[str, _Heir] = field(default_factory=dict[str, _Heir])

    @classmethod
    async def opened(
        cls, stack: AsyncExitStack, settings: Settings, policy: Policy, backend: WorkerBackend, clock: AskedAt
    ) -> Self:
        """Open it on a connected backend, with tables in the settings' folder, until the stack closes."""
        folder = settings.home / "data"
        urls = LedgerUrls(ledger=sqlite_url(folder / "days.db"), journal=sqlite_url(folder / "days-journal.db"))
        # An engine that reads has no alembic, and no other command needs it here.
        from memcore.ledger.migrate import migrate  # noqa: PLC0415  # see above

        migrate(urls)
        ledger = Ledger.open(urls)
        stack.callback(ledger.close)
        model = create_model(settings, policy, ledger)
        if model is not None:
            stack.push_async_callback(model.close)
        consolidation = policy.memory.consolidation
        return cls(
            backend=backend,
            ledger=ledger,
            service=MaintenanceService.configured(
                settings, policy, backend, ledger, has_model=model is not None, clock=clock
            ),
            synthesis=SynthesisService(backend, ledger, consolidation, company=settings.company, model=model),
            clock=clock,
            interval=consolidation.interval,
        )

    async def run_day(self, day: int) -> None:
        """Let it be a day, counted from 1, and run what is due for every agent. Raises as backend and ledger do."""
        length = LENGTHS.get(self.interval)
        is_due = length is not None and day % max(length // _ONE_DAY, 1) == 0
        for agent_id in self.clock.agents:
            self.clock.set_day(agent_id, day)
            if is_due:
                await self._run(agent_id)
        await self.service.expire_archive()

    async def _run(self, agent_id: str) -> None:
        company, runs = self.service.company, self.ledger.runs
        new = NewRun(company=company, agent_id=agent_id, planned_at=self.clock())
        # One that waits for its model goes on where it stopped.
        run = runs.create(new) or runs.active(company, agent_id)
        if run is None:
            return
        await carried_out(self.service, self.synthesis, run)
        for each in self.ledger.journal.journal_entries(run.run_id):
            if each.reason == "consolidated" and each.incoming:
                self._replaced |= {gone.entry.id: _heir(gone, each.incoming[0]) for gone in each.outgoing}

    async def done(self) -> MaintenanceDone:
        """Return what all runs so far have done, and what is left."""
        company, agents = self.service.company, self.clock.agents
        runs = self.ledger.runs.list(company, limit=None)
        counts = sum((Counter(run.counts) for run in runs), Counter[str]())
        live = [await self.backend.count_where(Where(agent_id=agent_id)) for agent_id in agents]
        return MaintenanceDone(
            merged=counts["consolidated"],
            summaries=counts["summaries"],
            removed=sum(counts[name] for name in _REMOVED),
            archived=sum(self.ledger.archive.count(company, agent_id) for agent_id in agents),
            live=sum(live),
            refused=counts["gate_refused"],
            held=sum(run.state is WorkState.HELD for run in runs),
            failed=sum(run.state is WorkState.FAILED for run in runs),
            reason=next((run.reason for run in runs if run.state in _STOPPED), None),
        )

    def kept(self, ids: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Kept]]:
        """Return which memory of the store holds each of the data's now, by agent and id in the data."""
        return {agent_id: {name: self._kept(each) for name, each in own.items()} for agent_id, own in ids.items()}

    def _kept(self, memory_id: str) -> Kept:
        words = frozenset[str]()
        while (heir := self._replaced.get(memory_id)) is not None:
            # Of several steps the first knows the memory's own words.
            memory_id, words = heir.memory_id, words or heir.words
        return Kept(memory_id, words)


#: How a run ends that did not do all.
_STOPPED = {WorkState.HELD, WorkState.FAILED}

#: Counts of a run of what it removed and replaced by nothing.
_REMOVED = ("ended", "retention", "expired", "pruned", "enforced")


def _heir(gone: MemoryRecord, by: MemoryRecord) -> _Heir:
    return _Heir(by.entry.id, frozenset() if by.is_lossless else terms_of(gone.entry.content))
