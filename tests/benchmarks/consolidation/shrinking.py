"""Shrinking an agent's memories by runs of the product's own maintenance."""

import time
from collections.abc import Iterable
from datetime import datetime, timedelta

from benchmarks.consolidation.contexts import Held
from benchmarks.consolidation.evidence import terms_of
from benchmarks.consolidation.ways import Variant, tokens

from memcore import ids
from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import pages
from memcore.clock import utc_now
from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType
from memcore.evaluation.maintained import carried_out
from memcore.jobs import Done
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.llm.protocol import Model
from memcore.maintenance.consolidation.answers import SynthesisService
from memcore.maintenance.consolidation.factory import StrategyBuilder, build_consolidation_strategy
from memcore.maintenance.consolidation.strategy import CompositeConsolidationStrategy
from memcore.maintenance.enforcement import Candidate
from memcore.maintenance.service import MaintenanceService
from memcore.models.memory import MemoryLevel
from memcore.records import MemoryRecord, Where

#: Least age of what is consolidated, the policy's default.
_MIN_AGE = timedelta(days=7)


class MaintenanceRuns:
    """Maintain agents of one company.

    Args:
        backend: connected.
        ledger: migrated; its runs are the bench's own.
        company: whose agents.
        model: asked by the ways that need one; None when none is connected.
    """

    def __init__(self, backend: WorkerBackend, ledger: Ledger, *, company: str, model: Model | None = None) -> None:
        self._backend = backend
        self._ledger = ledger
        self._company = company
        self._model = model

    async def shrink(self, agent_id: str, way: Variant) -> float:
        """Shrink one agent's memories; return the seconds that its runs took."""
        records = await self.records(agent_id)
        policy = way.policy or ConsolidationConfig(
            strategy=ConsolidationStrategyType.CONDENSE, max_removed_fraction=1.0
        )
        build: StrategyBuilder = build_consolidation_strategy
        if way.build is not None:
            strategy = await way.build(self._backend, records)
            build = _always(strategy)
        elif way.policy is None:
            policy = policy.model_copy(update={"max_memories_per_agent": _newest(records, way.share or 1.0)})
            build = _always(None)
        begun = time.perf_counter()
        for maintenance_run in _maintenance_runs(records) if way.by_run else (None,):
            await self._run(agent_id, policy, build=build, now=maintenance_run)
        return time.perf_counter() - begun

    async def records(self, agent_id: str) -> list[MemoryRecord]:
        """Return the agent's memories, oldest first."""
        return [record async for page in pages(self._backend, Where(agent_id=agent_id)) for record in page]

    async def held(self, agent_id: str, names: dict[str, str]) -> Held:
        """Return what is left.

        Args:
            agent_id: whose.
            names: the turn that each memory was at first, by the memory's id.
        """
        records = await self.records(agent_id)
        return Held(
            tokens=tokens(records),
            terms={record.entry.id: terms_of(record.entry.content) for record in records},
            home={
                names[origin]: record.entry.id
                for record in records
                for origin in record.lineage.summary_of or (record.entry.id,)
            },
        )

    async def _run(
        self,
        agent_id: str,
        policy: ConsolidationConfig,
        *,
        build: StrategyBuilder,
        now: datetime | None = None,
    ) -> None:
        run = self._ledger.runs.create(
            NewRun(
                run_id=ids.new_id(),
                company=self._company,
                agent_id=agent_id,
                kind="maintenance",
                origin="manual",
                planned_at=now or utc_now(),
                allow_large=True,
            )
        )
        if run is None:
            raise RuntimeError(f"{agent_id} has an active run")
        service = MaintenanceService(
            self._backend,
            self._ledger,
            policy,
            company=self._company,
            level=MemoryLevel.PERSISTENT,
            clock=utc_now if now is None else lambda: now,
            has_model=self._model is not None,
            build_strategy=build,
            value=_newest_first,
        )
        synthesis = SynthesisService(self._backend, self._ledger, policy, company=self._company, model=self._model)
        outcome = await carried_out(service, synthesis, run)
        if not isinstance(outcome, Done):
            raise TypeError(f"the run of {agent_id} ended with {outcome}")


def _always(strategy: CompositeConsolidationStrategy | None) -> StrategyBuilder:
    return lambda _deps: strategy


def _newest_first(candidate: Candidate, now: datetime) -> float:
    del now
    return candidate.entry.created_at.timestamp()


def _newest(records: Iterable[MemoryRecord], share: float) -> int:
    """Return how many of the newest have at most this share of all tokens."""
    records = list(records)
    left = share * tokens(records)
    for number, record in enumerate(reversed(records)):
        left -= tokens([record])
        if left < 0:
            return number
    return len(records)


def _maintenance_runs(records: Iterable[MemoryRecord]) -> list[datetime]:
    """Return, for each day on which something was stored, when all of it has become old enough."""
    days = {record.entry.created_at.date(): record.entry.created_at for record in records}
    return [last + _MIN_AGE + timedelta(hours=1) for last in days.values()]
