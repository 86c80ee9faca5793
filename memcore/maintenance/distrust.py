"""Finds all that came of what is distrusted, and brings back what merges with it have taken."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Self

from memcore import ids
from memcore.backends.protocol import MAX_PAGE, BatchBackend, pages
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext, JobDispatcher
from memcore.jobs import MaintenancePayload
from memcore.ledger.access.distrusts import Distrust
from memcore.ledger.erasure.hidden import showing_all
from memcore.ledger.erasure.reach import Reach, reach_of
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkItem
from memcore.maintenance.removals import MAX_ENTRY, JournaledStore
from memcore.maintenance.undo import apply_restore, hold_back
from memcore.models.distrust import DistrustRule
from memcore.records import MemoryRecord, Where

#: How long a request, and one sweep, looks for what came of a source: clients wait little longer for an answer.
FOUND_WITHIN = timedelta(seconds=10)

#: Is called as a search goes on, with the agents looked at, and of how many.
Watch = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class DistrustSearch:
    """Finds all that came of what one company distrusts, agent by agent, and lets clean memories come back.

    A search that was cut off goes on behind its last agent; a process that starts anew begins with the first one.
    Calls raise MemoryConnectionError.
    """

    backend: BatchBackend
    ledger: Ledger
    _: KW_ONLY
    company: str
    dispatcher: JobDispatcher
    clock: Clock = utc_now
    watch: Watch | None = None
    _last: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        return cls(
            context.backend,
            context.ledger,
            company=context.company,
            dispatcher=context.dispatcher,
            clock=context.clock,
        )

    async def finish(self) -> None:
        """Go on with each distrust whose request did not find everything; what time does not allow, the next call."""
        until = time.monotonic() + FOUND_WITHIN.total_seconds()
        for each in await asyncio.to_thread(self.ledger.distrusts.in_force, self.company):
            # A younger one may still be looked for by its request.
            if each.completed_at is None and self.clock() - each.at > FOUND_WITHIN:
                await self.complete(each, until=until)

    async def complete(self, distrust: Distrust, *, until: float | None = None) -> Distrust:
        """Find all that came of a source, and return the distrust; without ``completed_at`` where the time is over.

        ``until`` is a time of the monotonic clock. At least one agent is looked at.
        """
        distrusts, distrust_id = self.ledger.distrusts, distrust.distrust_id
        agents = await self.agents(distrust.rule, after=self._last.get(distrust_id))
        async for agent_id, _, reach in self.looks(agents, distrust.rule):
            if reach.memory_ids:
                await asyncio.to_thread(distrusts.reach, self.company, distrust_id, agent_id, reach.memory_ids)
            if reach.taken:
                await asyncio.to_thread(self.dispatcher.dispatch, [self._restore(agent_id, distrust_id)])
            self._last[distrust_id] = agent_id
            if agent_id != agents[-1] and until is not None and time.monotonic() >= until:
                return distrust
        self._last.pop(distrust_id, None)
        return await asyncio.to_thread(distrusts.complete, self.company, distrust_id)

    async def agents(self, rule: DistrustRule, *, after: str | None = None) -> Sequence[str]:
        """Return the agents that a rule concerns, in order; ``after`` is the last one that was looked at."""
        return (rule.agent_id,) if rule.agent_id is not None else await asyncio.to_thread(self._every, after)

    async def looks(
        self, agents: Sequence[str], rule: DistrustRule
    ) -> AsyncIterator[tuple[str, frozenset[str], Reach]]:
        """Yield each agent with what :meth:`look` finds in it."""
        for number, agent_id in enumerate(agents, start=1):
            yield agent_id, *await self.look(agent_id, rule)
            if self.watch is not None:
                self.watch(number, len(agents))

    async def look(self, agent_id: str, rule: DistrustRule) -> tuple[frozenset[str], Reach]:
        """Return what came of a source in an agent: the ids of what is in the store, and all of it."""
        where = Where(
            agent_id=agent_id,
            session_id=rule.session_id,
            ids=None if rule.memory_id is None else frozenset({rule.memory_id}),
            created_since=rule.since,
            created_before=rule.until,
        )
        with showing_all():
            read = pages(self.backend, where)
            stored = {each.entry.id async for page in read for each in page if rule.takes(each.entry)}
            reach = await asyncio.to_thread(
                reach_of, self.ledger, self.company, agent_id, rule, stored=frozenset(stored)
            )
            # What merges made of it need not meet the rule itself.
            made = sorted(reach.memory_ids - stored)
            for start in range(0, len(made), MAX_PAGE):
                held = await self.backend.get_many(agent_id, made[start : start + MAX_PAGE])
                stored |= {each.entry.id for each in held}
        return frozenset(stored), reach

    def _every(self, after: str | None) -> Sequence[str]:
        found: list[str] = []
        while page := self.ledger.agents.list(self.company, after=found[-1] if found else after):
            found += [each.agent_id for each in page]
        return found

    def _restore(self, agent_id: str, distrust_id: str) -> WorkItem:
        """Return the message of the run that brings back what merges have taken; a second one finds nothing to do."""
        now = self.clock()
        job = f"restore {distrust_id}"
        run_id = ids.run_id(company=self.company, agent_id=agent_id, job=job, planned_at=now.isoformat())
        payload = MaintenancePayload(
            company=self.company,
            agent_id=agent_id,
            run_id=run_id,
            kind="restore",
            origin="manual",
            planned_at=now,
            scope_id=distrust_id,
        )
        return WorkItem(
            company=self.company,
            kind=MaintenancePayload.task,
            key=run_id,
            queue=str(MaintenancePayload.queue),
            payload=payload.model_dump_json(),
            created_at=now,
        )


async def bring_back(store: JournaledStore, ledger: Ledger) -> str | None:
    """Bring back the memory ``scope_id``, as ``apply_restore`` does, or what a distrust of this id has to give back.

    Returns one sentence why nothing was done; None when something was brought back.
    """
    distrust = ledger.distrusts.find(store.run.company, store.run.scope_id or "")
    return await apply_restore(store, ledger) if distrust is None else await _restore_clean(store, ledger, distrust)


async def _restore_clean(store: JournaledStore, ledger: Ledger, distrust: Distrust) -> str | None:
    """Bring back the clean memories that merges with distrusted ones have taken, and protect them from the next runs.

    They are as they were; the merged memories stay, and nobody is shown them. An attempt goes on where the last one
    stopped: what is back is not gone any more.
    """
    run, journal = store.run, ledger.journal
    if distrust.lifted_at is not None:  # a person was faster
        return "it is trusted again"
    reach = reach_of(ledger, run.company, run.agent_id, distrust.rule)
    ledger.distrusts.reach(run.company, distrust.distrust_id, run.agent_id, reach.memory_ids)
    wanted = sorted(reach.taken.keys() - await store.there(sorted(reach.taken)))
    records = [_held(store, ledger, each, reach.taken[each]) for each in wanted]
    back = [each for each in records if each is not None]
    for start in range(0, len(back), MAX_ENTRY):
        some = back[start : start + MAX_ENTRY]
        hold_back(store.snapshot, journal, [each.entry.id for each in some])
        await store.restore_removed(*some, seq=journal.next_seq(run.run_id))
    if journal.next_seq(run.run_id):
        return None
    lost = len(wanted) - len(back)
    return f"{lost} memories are held nowhere any more" if lost else "nothing is left to bring back"


def _held(store: JournaledStore, ledger: Ledger, memory_id: str, booking_id: str) -> MemoryRecord | None:
    """Return a memory as the archive or the journal holds it; None where neither does any more."""
    archived = ledger.archive.find(store.run.company, store.run.agent_id, memory_id)
    if archived is not None:
        return archived.record_for(store.snapshot.backend.vector_space)
    return ledger.lineage.record(booking_id, memory_id)
