"""A small company for tests of the run: an in-memory store, a ledger on SQLite, and a clock that can be turned."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pytest

from examples.demo.balance import tally_of
from memcore import ids
from memcore.backends.factory import WorkerBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.protocol import pages
from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, PruningConfig
from memcore.config.memory import CorroborationConfig
from memcore.config.urls import LedgerUrls
from memcore.jobs import Deferred, Done, Outcome
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import EndKind, NewRun, Run, RunKind
from memcore.ledger.tables import journal_metadata
from memcore.ledger.tables import metadata as ledger_metadata
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.answers import SynthesisService
from memcore.maintenance.rules import Timeouts
from memcore.maintenance.service import MaintenanceService
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryLevel, MemoryMetadata
from memcore.records import Lineage, MemoryRecord, Vectors, Where
from support.fault_injection import Crash, Faults
from support.ledger_records import copied_urls, places_due

if TYPE_CHECKING:
    from memcore.llm.protocol import Model

CONDENSE = ConsolidationStrategyType.CONDENSE
COMPANY = "acme"
AGENT = "ada"
START = datetime(2026, 3, 1, 2, tzinfo=UTC)
#: Linux's file system in memory.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # a private folder is made inside it
#: All that a policy may have merged; by itself it names episodic memories alone.
SUMMARISED = tuple(category for category in MemoryCategory if category is not MemoryCategory.WORKING)
#: Enough attempts for any test; a run that needs more goes in circles.
MAX_CALLS = 12


class TurnedClock:
    """Goes on by a millisecond at each look, and by more when told to."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def turn(self, by: timedelta) -> None:
        self.at += by


def uid(number: int) -> str:
    """The id of a test's n-th memory."""
    return str(UUID(int=number))


#: What a summary by beginnings leaves out: one that is not shorter than its memories replaces nothing.
FILLER = (
    "Little else was said that day. The weather was neither good nor bad, and the coffee was neither hot nor cold. "
    "Nobody minded any of it very much, and nothing more of that day stands here for anybody to read."
)


def memory(
    number: int,
    *,
    days_old: float = 30.0,
    category: MemoryCategory = MemoryCategory.EPISODIC,
    namespace: str = "default",
    content: str | None = None,
    tags: Sequence[str] = (),
    confidence: float = 1.0,
    expires_in_days: float | None = None,
    lineage: Lineage | None = None,
    with_vectors: bool = False,
    agent_id: str = AGENT,
) -> MemoryRecord:
    """A memory of a given age, of the category that a run merges by default; numbers order the ids."""
    vectors = Vectors(dense=np.array([number, 0.25, -1.5], dtype=np.float32)) if with_vectors else None
    return MemoryRecord(
        entry=MemoryEntry(
            id=uid(number),
            agent_id=agent_id,
            namespace=namespace,
            category=category,
            content=content or f"memory number {number}. {FILLER}",
            metadata=MemoryMetadata(source="test", confidence=confidence, tags=tuple(tags)),
            created_at=START - timedelta(days=days_old),
            expires_at=None if expires_in_days is None else START + timedelta(days=expires_in_days),
        ),
        lineage=lineage or Lineage(),
        vectors=vectors,
        extra={"kept": number},
    )


class MaintenanceFixture:
    """Everything that a run needs, and checks of what it left."""

    def __init__(self, urls: LedgerUrls, policy: ConsolidationConfig | None = None) -> None:
        self.clock = TurnedClock()
        self.backend = InMemoryBackend(company=COMPANY, clock=self.clock)
        self.ledger = Ledger.open(urls, clock=self.clock)
        self._files = [Path(url.removeprefix("sqlite:///")) for url in (urls.ledger, urls.journal) if "sqlite:" in url]
        # Summaries are what most tests of a run are about; the default strategy makes none.
        self.policy = policy or ConsolidationConfig(strategy=CONDENSE, max_removed_fraction=1.0)
        self.level = MemoryLevel.PERSISTENT
        self.timeouts = Timeouts()
        self.corroboration = CorroborationConfig()
        self.pruning: PruningConfig | None = PruningConfig()
        self.model: Model | None = None
        self.patience = timedelta(hours=24)
        self.stored: Counter[str] = Counter()
        self.originals: dict[str, MemoryRecord] = {}

    def keep(self) -> Callable[[], None]:
        """Save the state; the returned function restores it, faster than a new fixture.

        A ledger on PostgreSQL is emptied instead: call this before any run is planned.
        """
        # The last connection that closes makes the files whole; then they may be replaced.
        self.ledger.close()
        files = {path: path.read_bytes() for path in self._files}
        backend = self.backend
        records = {agent_id: dict(held) for agent_id, held in backend._agents.items()}
        owners, marks = dict(backend._owners), dict(backend._marks)
        archived = {agent_id: dict(held) for agent_id, held in backend._archived.items()}
        at, stored, originals = self.clock.at, Counter(self.stored), dict(self.originals)

        def go_back() -> None:
            self.ledger.close()
            for path, content in files.items():
                for suffix in ("-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
                path.write_bytes(content)
            if not self._files:
                empty(self.ledger)
            backend._agents = {agent_id: dict(held) for agent_id, held in records.items()}
            backend._owners, backend._marks = dict(owners), dict(marks)
            backend._archived = {agent_id: dict(held) for agent_id, held in archived.items()}
            self.clock.at, self.stored, self.originals = at, Counter(stored), dict(originals)

        return go_back

    async def store(self, records: Iterable[MemoryRecord]) -> None:
        records = list(records)
        await self.backend.connect()
        await self.backend.store_many(records)
        self.stored.update(record.entry.id for record in records)
        self.originals |= {record.entry.id: record for record in records}

    def service(
        self, backend: WorkerBackend | None = None, ledger: Ledger | None = None, **more: Any
    ) -> MaintenanceService:
        return MaintenanceService(
            backend or self.backend,
            ledger or self.ledger,
            self.policy,
            company=COMPANY,
            level=self.level,
            timeouts=self.timeouts,
            pruning=self.pruning,
            corroboration=self.corroboration,
            has_model=self.model is not None,
            clock=self.clock,
            **more,
        )

    def watched(self, faults: Faults, **more: Any) -> MaintenanceService:
        """A service of which every call meets the faults."""
        return self.service(faults.backend(self.backend), faults.ledger(self.ledger), **more)

    async def crash(self, run_id: str, faults: Faults) -> None:
        """Let a run crash at a fault, and its lease end."""
        with pytest.raises(Crash):
            await self.watched(faults).run(run_id)
        self.end_lease()

    def end_lease(self) -> None:
        self.clock.turn(LEASE_LENGTH + timedelta(seconds=1))

    def synthesis(
        self, backend: Any = None, ledger: Ledger | None = None, model: Any = None, **more: Any
    ) -> SynthesisService:
        return SynthesisService(
            backend or self.backend,
            ledger or self.ledger,
            self.policy,
            company=COMPANY,
            model=model or self.model,
            patience=self.patience,
            clock=self.clock,
            **more,
        )

    def plan_run(
        self,
        *,
        undo_of: str | None = None,
        allow_large: bool = False,
        agent_id: str = AGENT,
        kind: RunKind | None = None,
        scope_id: str | None = None,
    ) -> Run:
        run = self.ledger.runs.create(
            NewRun(
                run_id=ids.new_id(),
                company=COMPANY,
                agent_id=agent_id,
                kind=kind or ("maintenance" if undo_of is None else "undo"),
                origin="manual",
                planned_at=self.clock(),
                undo_of=undo_of,
                allow_large=allow_large,
                scope_id=scope_id,
            )
        )
        assert run is not None
        return run

    async def to_the_end(self, run_id: str) -> Outcome:
        """Call until the run rests, as redeliveries would; leases of earlier attempts end in between."""
        for _ in range(MAX_CALLS):
            leased = self.run(run_id).lease_until
            if leased is not None and leased > self.clock.at:
                self.clock.at = leased
            outcome = await self.service().run(run_id)
            if not isinstance(outcome, Deferred):
                return outcome
            if self.run(run_id).state is WorkState.WAITING and not await self.ask_model(run_id):
                return outcome
        raise AssertionError("the run goes in circles")

    async def ask_model(self, run_id: str) -> list[Outcome]:
        """Do the jobs that a snoozed run dispatched."""
        parts = self.ledger.syntheses.of_run(COMPANY, run_id)
        again = [each.dispatch_after for each in parts if each.is_open and each.state is not WorkState.WAITING]
        # Their jobs were sent and lost, or their workers died: the sweep sends them again when their time has come.
        self.clock.at = max([self.clock.at, *filter(None, again)])
        return [
            (await self.synthesis().ask(run_id, place)).outcome
            for place in places_due(self.ledger, run_id, company=COMPANY)
        ]

    async def maintenance_run(self, *, allow_large: bool = False) -> Run:
        return await self._finished(self.plan_run(allow_large=allow_large))

    async def undo(self, run_id: str) -> Run:
        return await self._finished(self.plan_run(undo_of=run_id))

    async def end(self, kind: EndKind, scope_id: str) -> Run:
        return await self._finished(self.plan_run(kind=kind, scope_id=scope_id))

    async def _finished(self, planned: Run) -> Run:
        outcome = await self.to_the_end(planned.run_id)
        assert isinstance(outcome, Done), outcome
        return self.run(planned.run_id)

    def run(self, run_id: str) -> Run:
        run = self.ledger.runs.get(COMPANY, run_id)
        assert run is not None
        return run

    async def live(self, agent_id: str = AGENT) -> dict[str, MemoryRecord]:
        found: dict[str, MemoryRecord] = {}
        async for page in pages(self.backend, Where(agent_id=agent_id)):
            for record in await self.backend.get_many(
                agent_id, [record.entry.id for record in page], with_vectors=True
            ):
                found[record.entry.id] = record
        return found

    async def snapshot(self) -> dict[str, object]:
        """All that is kept of each live memory, in a form that compares."""
        return {key: comparable(record) for key, record in (await self.live()).items()}

    async def summaries(self) -> list[MemoryRecord]:
        return [record for record in (await self.live()).values() if record.lineage.summary_of]

    async def check_balance(self) -> None:
        """stored + created + restored = live + removed, as multisets of ids; and nothing has been lost."""
        tally = tally_of(self.ledger, COMPANY, AGENT)
        live = await self.live()
        assert self.ledger.journal.open_of(COMPANY, AGENT) == ()
        assert self.stored + tally.created + tally.restored == Counter(live.keys()) + tally.removed
        gone = self.all_journaled()
        for memory_id, original in self.originals.items():
            if memory_id in live:
                assert comparable(live[memory_id]) == comparable(original)
            else:
                assert comparable(gone[memory_id]) == comparable(original)

    def journaled(self, memory_id: str) -> MemoryRecord:
        """The memory as the last entry that removed it wrote it down."""
        return self.all_journaled()[memory_id]

    def all_journaled(self) -> dict[str, MemoryRecord]:
        return {
            record.entry.id: record
            for run in reversed(self.ledger.runs.list(COMPANY, agent_id=AGENT, limit=1000))
            for journal_entry in self.ledger.journal.journal_entries(run.run_id)
            for record in journal_entry.outgoing
        }


def empty(ledger: Ledger) -> None:
    """Take every row out of a ledger."""
    for database, tables in zip(ledger._databases, (ledger_metadata, journal_metadata), strict=True):
        with database.write() as connection:
            for table in reversed(tables.sorted_tables):
                connection.execute(table.delete())


def comparable(record: MemoryRecord) -> object:
    """A record's whole content, vectors bit for bit."""
    vectors = record.vectors
    return (
        record.entry,
        record.lineage,
        None if vectors is None else (vectors.dense.tobytes(), vectors.sparse),
        sorted(record.extra.items()),
    )


#: Makes fixtures that are closed after the test.
MakeMaintenanceFixture = Callable[..., MaintenanceFixture]


@contextmanager
def opened_world(ledger_template: Path, policy: ConsolidationConfig | None = None) -> Iterator[MaintenanceFixture]:
    """Yield a world of its own for each example, in memory where that can be."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as folder:
        world = MaintenanceFixture(copied_urls(ledger_template, Path(folder) / "ledger"), policy)
        try:
            yield world
        finally:
            world.ledger.close()
