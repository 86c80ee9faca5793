"""The cost of a maintenance run over many memories: ``python tests/benchmarks/maintaining.py [memories] [turns]``.

A real store server, the mem0 backend and a ledger on SQLite; the run's own service runs in this process. One agent
has nothing due, of others one and ten in a hundred memories have expired, of one all may be merged, and of the last
three, each twice as large as the one before, every tenth memory is a repetition.
"""

import asyncio
import math
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, cast

import psutil
from pydantic import SecretStr

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from benchmarks.texts import Texts  # noqa: E402
from support.ledger_records import sqlite_urls  # noqa: E402
from support.maintenance_fixture import SUMMARISED  # noqa: E402
from support.store_servers import StoreAddress, store_server  # noqa: E402

from memcore import ids  # noqa: E402
from memcore.backends.factory import WorkerBackend  # noqa: E402
from memcore.backends.mem0.backend import Mem0Backend  # noqa: E402
from memcore.backends.mem0.config import Mem0Config  # noqa: E402
from memcore.clock import utc_now  # noqa: E402
from memcore.config.maintenance import (  # noqa: E402
    ConsolidationConfig,
    ConsolidationStrategyType,
    GateConfig,
    PruningConfig,
    RetentionConfig,
)
from memcore.embedding.bm25 import Bm25Encoder  # noqa: E402
from memcore.embedding.factory import create_embedder  # noqa: E402
from memcore.jobs import Done  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate, migrate_history  # noqa: E402
from memcore.ledger.runs import NewRun  # noqa: E402
from memcore.maintenance.rules import Timeouts  # noqa: E402
from memcore.maintenance.service import MaintenanceService  # noqa: E402
from memcore.models.memory import MemoryEntry, MemoryLevel  # noqa: E402
from memcore.models.memory_test import MemoryTest, NamedMemory  # noqa: E402
from memcore.records import Lineage, MemoryRecord, Page  # noqa: E402

#: Whose runs these are.
_COMPANY = "bench-runs"

#: Memories written in one call while an agent is filled.
_FILL = 1_024

#: Sessions of an agent whose memories live as long as their session.
_SESSIONS = 50

#: A retention rule, as nearly every company has one, and a silence after which a session is over.
_POLICY = ConsolidationConfig(
    strategy=ConsolidationStrategyType.SIMPLE,
    categories=SUMMARISED,
    retention=RetentionConfig(default_retention_days=365),
    max_memories_per_agent=1_000_000,
    max_removed_fraction=1.0,
)
_TIMEOUTS = Timeouts(session=timedelta(days=30))

#: Merges everything: the texts are too short for ``simple``.
_GATED = _POLICY.model_copy(update={"strategy": ConsolidationStrategyType.CONDENSE})

#: The same without the gate.
_CONDENSE = _GATED.model_copy(update={"gate": GateConfig(enabled=False)})

#: The default strategy, in all categories that it takes.
_DEDUPE = _POLICY.model_copy(update={"strategy": ConsolidationStrategyType.DEDUPE, "categories": None})

#: Registered memory tests of an agent.
_TESTS = 200

#: One of so many memories says again what another one says.
_REPEATED_EVERY = 10

#: How much larger each agent of repetitions is than the first.
_GROWTH = (1, 2, 4)


_IDLE, _IDLE_SESSIONS = "nothing due", "nothing due, level session"


@dataclass(kw_only=True)
class RunSamples:
    """Time, CPU and calls of the runs of one kind."""

    seconds: list[float] = field(default_factory=list)
    here: float = 0.0
    store: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    scanned: int = 0

    @property
    def note(self) -> str:
        turns = len(self.seconds)
        calls = ", ".join(f"{name} {number / turns:g}" for name, number in sorted(self.calls.items()))
        cpu = f"CPU ms: here {self.here * 1e3 / turns:.0f}, store server {self.store * 1e3 / turns:.0f}"
        return f"{cpu}; {calls}; {self.scanned / turns:g} scanned"


class _Counting:
    """A backend that counts its calls, and the memories that its scans return."""

    def __init__(self, inner: WorkerBackend) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()
        self.scanned = 0

    async def scan(self, *args: Any, **kwargs: Any) -> Page:
        self.calls["scan"] += 1
        page = await self._inner.scan(*args, **kwargs)
        self.scanned += len(page.records)
        return page

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._inner, name)
        self.calls[name] += callable(asked)
        return asked


class MaintenanceRuns:
    """Agents of a company of its own, filled and maintained."""

    def __init__(self, backend: Mem0Backend, ledger: Ledger, store: psutil.Process, texts: Texts) -> None:
        self._backend = backend
        self._ledger = ledger
        self._store = store
        self._texts = texts
        self._filled = 0

    def idle(self, size: int, *, turns: int, level: MemoryLevel = MemoryLevel.PERSISTENT) -> RunSamples:
        """Maintain an agent of whose memories none is due, again and again."""
        agent_id, seen = f"idle-{level}", RunSamples()
        self._fill(agent_id, size, days_old=1)
        for _ in range(turns):
            self._maintenance_run(agent_id, seen, level=level)
        return seen

    def expiring(self, size: int, due: int, *, turns: int) -> RunSamples:
        """Maintain an agent of whose memories so many have expired, again before each turn."""
        agent_id, seen = f"expiring-{due}-of-{size}", RunSamples()
        self._fill(agent_id, size - due, days_old=1)
        for _ in range(turns):
            self._fill(agent_id, due, days_old=2, is_expired=True)
            done = self._maintenance_run(agent_id, seen)
            assert done.facts["expired"] == due
        return seen

    def merging(self, size: int, *, turns: int) -> tuple[RunSamples, RunSamples, RunSamples]:
        """Maintain agents whose memories may all be merged, without the gate, with it, and with memory tests as well.

        All are there before any run begins, since a run costs more in a larger store, and each begins as often.
        """
        without, gated, tested = RunSamples(), RunSamples(), RunSamples()
        kinds = [("merging", without, _CONDENSE), ("gated", gated, _GATED), ("tested", tested, _GATED)]
        for turn in range(turns):
            for name, _, _ in kinds:
                self._fill(f"{name}-{turn}", size, days_old=30, mark=f"merging {turn}")
            self._register(f"tested-{turn}", size, mark=f"merging {turn}")
            for name, seen, policy in kinds if turn % 2 == 0 else reversed(kinds):
                done = self._maintenance_run(f"{name}-{turn}", seen, policy=policy)
                assert done.facts["consolidated"] > (0.7 if seen is tested else 0.85) * size  # the gate refuses some
        return without, gated, tested

    def _register(self, agent_id: str, size: int, *, mark: str) -> None:
        """Register memory tests, each of which several memories pass, in more than one group.

        So the gate searches for each again and again, and for few a group stays, which would make the run shorter.
        """
        every = [each.content.split() for each in self._texts.requests(size, mark=mark)]
        tests = [
            MemoryTest(
                name=f"test {number}",
                agent=agent_id,
                question=f"{' '.join(words[:8])} {words[-1]}",
                finds=(NamedMemory(text=" ".join(words[:3])),),
            )
            for number, words in enumerate(every[:: max(1, size // _TESTS)][:_TESTS])
        ]
        self._ledger.memory_tests.register(_COMPANY, tests, notes=[])

    def repeating(self, size: int) -> RunSamples:
        """Maintain an agent of whose memories every tenth is a repetition of another one, by the default strategy."""
        agent_id, seen, again = f"repeating-{size}", RunSamples(), size // _REPEATED_EVERY
        self._fill(agent_id, size - again, days_old=30)
        # The same texts once more, each with words that say nothing.
        self._fill(agent_id, again, days_old=20, before="Please note: ", mark=f"run {self._filled}")
        done = self._maintenance_run(agent_id, seen, policy=_DEDUPE)
        assert done.facts["summaries"] >= 0.7 * again, done.facts  # not lessons, nor those of "working"
        return seen

    def _maintenance_run(
        self,
        agent_id: str,
        seen: RunSamples,
        *,
        level: MemoryLevel = MemoryLevel.PERSISTENT,
        policy: ConsolidationConfig = _POLICY,
    ) -> Done:
        counting = _Counting(self._backend)
        service = MaintenanceService(
            cast("WorkerBackend", counting),
            self._ledger,
            policy,
            company=_COMPANY,
            level=level,
            timeouts=_TIMEOUTS,
            pruning=PruningConfig(),
        )
        new = NewRun(run_id=ids.new_id(), company=_COMPANY, agent_id=agent_id, planned_at=utc_now())
        run = self._ledger.runs.create(new)
        assert run is not None
        store, here, begun = _cpu(self._store), process_time(), perf_counter()
        outcome = _RUNNER.run(service.run(run.run_id))
        seen.seconds.append(perf_counter() - begun)
        seen.here += process_time() - here
        seen.store += _cpu(self._store) - store
        seen.calls += counting.calls
        seen.scanned += counting.scanned
        assert isinstance(outcome, Done), outcome
        return outcome

    def _fill(
        self,
        agent_id: str,
        size: int,
        *,
        days_old: float,
        is_expired: bool = False,
        before: str = "",
        mark: str | None = None,
    ) -> None:
        self._filled += 1
        begun = utc_now() - timedelta(days=days_old)
        records = [
            MemoryRecord(
                entry=MemoryEntry(
                    id=ids.new_id(),
                    agent_id=agent_id,
                    category=request.category,
                    content=before + request.content,
                    metadata=request.metadata,
                    created_at=(at := begun + timedelta(seconds=number)),
                    expires_at=at + timedelta(hours=1) if is_expired else None,
                ),
                lineage=Lineage(session_id=f"session-{number % _SESSIONS}"),
            )
            for number, request in enumerate(self._texts.requests(size, mark=mark or f"run {self._filled}"))
        ]
        for start in range(0, size, _FILL):
            _RUNNER.run(self._backend.store_many(records[start : start + _FILL]))


def maintenance_runs(*, size: int, turns: int) -> tuple[list[Figure], list[Target]]:
    """Measure every kind of run."""
    few, many = size // 100, size // 10
    with _opened() as world:
        without, gated, tested = world.merging(size, turns=2 * max(1, turns // 4))
        seen = {
            _IDLE: world.idle(size, turns=3 * turns),
            _IDLE_SESSIONS: world.idle(size, turns=3 * turns, level=MemoryLevel.SESSION),
            f"{few:,} expired": world.expiring(size, few, turns=turns),
            f"{many:,} expired": world.expiring(size, many, turns=turns),
            "all merged, condense": without,
            "the same with the gate": gated,
            f"with the gate and {_TESTS} memory tests": tested,
        }
        again = {times * size: world.repeating(times * size) for times in _GROWTH}
    seen |= {f"10 % of {number:,} repeated, dedupe": one for number, one in again.items()}
    figures = [
        Figure(group=f"a run over {size:,} memories", name=name, unit="s", samples=one.seconds, note=one.note)
        for name, one in seen.items()
    ]
    idle = [seconds * 1e3 for name in (_IDLE, _IDLE_SESSIONS) for seconds in seen[name].seconds]
    # Beside an idle run, which every run pays for.
    alone = statistics.median(seen[_IDLE].seconds)
    cost = {due: [(one - alone) / due for one in seen[f"{due:,} expired"].seconds] for due in (few, many)}
    ratios = [one / ten for one, ten in zip(cost[few], cost[many], strict=True)]
    scans = [float(seen[name].calls["scan"]) for name in (_IDLE, _IDLE_SESSIONS)]
    shown = [seen[f"{due:,} expired"].scanned / len(cost[due]) / due for due in (few, many)]
    merged = seen["all merged, condense"].seconds
    # CPU, of the run and the store server: other work on the machine does not count.
    gate_share = 1.0 - (without.here + without.store) / (gated.here + gated.store)
    tests_share = (tested.here + tested.store) / (gated.here + gated.store) - 1.0
    cost_of = {number: one.here + one.store for number, one in again.items()}
    largest = size * _GROWTH[-1]
    growth = cost_of[largest] / cost_of[size] / (largest * math.log(largest) / (size * math.log(size)))
    return figures, [
        Target(name=f"a run, nothing of {size:,} due, ms", values=idle, wanted=100, at_most=True),
        Target(name="the same, scans", values=scans, wanted=0, at_most=True),
        Target(name="time for one expired, 1% to 10%", values=ratios, wanted=3, at_most=True),
        Target(name="memories scanned for one expired", values=shown, wanted=3, at_most=True),
        Target(name=f"{size:,} memories merged, s", values=merged, wanted=15, at_most=True),
        Target(name="the gate's share of such a run's CPU", values=[gate_share], wanted=0.2, at_most=True),
        Target(name=f"CPU that {_TESTS} memory tests add to it", values=[tests_share], wanted=0.2, at_most=True),
        Target(name=f"10 % of {size:,} repeated, s", values=again[size].seconds, wanted=20, at_most=True),
        Target(name=f"CPU from {size:,} to {largest:,}, beside n log n", values=[growth], wanted=1, at_most=True),
    ]


@contextmanager
def _opened() -> Iterator[MaintenanceRuns]:
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder, store_server(Path(folder) / "store") as store:
        urls = sqlite_urls(Path(folder))
        migrate(urls)
        backend = _backend(store, f"sqlite:///{Path(folder) / 'history.db'}")
        with closing(Ledger.open(urls)) as ledger:
            _RUNNER.run(backend.connect())
            try:
                yield MaintenanceRuns(backend, ledger, psutil.Process(store.pid), Texts())
            finally:
                _RUNNER.run(backend.disconnect())


def _backend(store: StoreAddress, history_url: str) -> Mem0Backend:
    migrate_history(history_url)
    place = Mem0Config(
        url=store.url,
        api_key=SecretStr(store.api_key),
        history_url=history_url,
        collection=Mem0Config.collection_of(_COMPANY),
    )
    return Mem0Backend(place, company=_COMPANY, embedder=create_embedder("static"), encoder=Bm25Encoder())


_RUNNER = asyncio.Runner()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    size, turns = (int(text) for text in (*argv, *("10000", "4")[len(argv) :]))
    figures, targets = maintenance_runs(size=size, turns=turns)
    show(figures, targets, {"turns": turns})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
