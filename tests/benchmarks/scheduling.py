"""The cost of a tick with 100,000 agents of 200 companies: ``python tests/benchmarks/scheduling.py [known] [due]``.

A real ledger (SQLite, and PostgreSQL where its wheel is installed), a real broker, the scheduler's own tick; the clock
alone is moved, so that agents come due. Memory is the peak of a fresh process that does nothing but tick.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import psutil
import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from support.ledger_records import COMPANY, StoppedClock, postgres_database, sqlite_urls  # noqa: E402
from support.postgres_server import postgres_server  # noqa: E402
from support.valkey_servers import BrokerAddress, valkey_server  # noqa: E402

from memcore.config.policy import Policy  # noqa: E402
from memcore.config.settings import Settings  # noqa: E402
from memcore.config.urls import LedgerUrls  # noqa: E402
from memcore.jobs import Done, Queue  # noqa: E402
from memcore.ledger.companies import CompanyPolicies  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from scheduler.tick import tick  # noqa: E402
from workers.app import create_app  # noqa: E402
from workers.broker import BrokerDispatcher  # noqa: E402
from workers.celery_task import perform  # noqa: E402

if TYPE_CHECKING:
    from tasks.context import JobContext

#: Agents in the small fleet that the large one's memory is held against.
FEW = 1_000

#: Ticks with nobody due in one measurement.
IDLE_TICKS = 30

#: Times that a part of the agents comes due, each time another one.
DUE_TICKS = 3

#: Companies that the agents belong to, each with a policy file of its own.
COMPANIES = 200


@dataclass(kw_only=True)
class Samples:
    """What one database gave."""

    idle_ms: list[float] = field(default_factory=list)
    idle_cpu_ms: float = 0.0
    due_seconds: list[float] = field(default_factory=list)
    due_cpu_seconds: float = 0.0
    due_count: int = 0
    few_mib: float = 0.0
    many_mib: float = 0.0


def scheduling(*, known: int, due: int) -> tuple[list[Figure], list[Target]]:
    """Measure on each database that this machine has."""
    figures: list[Figure] = []
    targets: list[Target] = []
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder, valkey_server(Path(folder)) as broker:
        for name, urls in _databases(Path(folder)):
            seen = _measure(urls, broker, Path(folder), known=known, due=due)
            rows = (
                (
                    f"{known:,} known of {COMPANIES} companies, none due",
                    "ms",
                    seen.idle_ms,
                    f"{seen.idle_cpu_ms:.2f} ms of CPU here",
                ),
                (
                    f"{seen.due_count:,} due, claimed and sent",
                    "s",
                    seen.due_seconds,
                    f"of {known:,}; {seen.due_cpu_seconds:.2f} s of CPU here",
                ),
                (f"peak of a ticking process, {FEW:,} known", "MiB RSS", [seen.few_mib], ""),
                (f"peak of a ticking process, {known:,} known", "MiB RSS", [seen.many_mib], ""),
            )
            figures += [
                Figure(group=f"scheduler on {name}", name=row, unit=unit, samples=samples, note=note)
                for row, unit, samples, note in rows
            ]
            growth = seen.many_mib / seen.few_mib
            targets += [
                Target(name=f"{name}: a tick with none due, ms", values=seen.idle_ms, wanted=10.0, at_most=True),
                Target(name=f"{name}: {seen.due_count:,} due, s", values=seen.due_seconds, wanted=3.0, at_most=True),
                Target(name=f"{name}: memory, many to few", values=[growth], wanted=1.05, at_most=True),
            ]
    return figures, targets


def _databases(folder: Path) -> Iterator[tuple[str, LedgerUrls]]:
    yield "SQLite", sqlite_urls(folder)
    try:
        with postgres_server() as server, postgres_database(server) as url:
            yield "PostgreSQL", LedgerUrls(ledger=url, journal=url)
    except pytest.skip.Exception as absent:
        sys.stderr.write(f"PostgreSQL is left out: {absent}\n")


def _measure(urls: LedgerUrls, broker: BrokerAddress, home: Path, *, known: int, due: int) -> Samples:
    migrate(urls)
    clock, seen = StoppedClock(), Samples()
    with _context(urls, broker, home, clock) as job_context:
        for company in _companies():
            job_context.ledger.companies.register(company)
        _register(job_context, range(FEW))
        seen.few_mib = _peak_of_a_child(urls, home)
        _register(job_context, range(FEW, known))
        seen.many_mib = _peak_of_a_child(urls, home)
        cpu = process_time()
        for _ in range(IDLE_TICKS):
            begun = perf_counter()
            perform(tick, "{}", job_context)
            seen.idle_ms.append((perf_counter() - begun) * 1e3)
        seen.idle_cpu_ms = (process_time() - cpu) * 1e3 / IDLE_TICKS
        for _ in range(DUE_TICKS):
            # Slots are spread evenly over the day: after its part of it, that part of the agents is due.
            clock.advance(timedelta(days=due / known))
            _due(job_context, broker, seen)
    return seen


def _due(job_context: "JobContext", broker: BrokerAddress, seen: Samples) -> None:
    begun, cpu = perf_counter(), process_time()
    outcome = perform(tick, "{}", job_context)
    seen.due_seconds.append(perf_counter() - begun)
    cpu = process_time() - cpu
    assert isinstance(outcome, Done)
    seen.due_count = int(outcome.facts["sent"])
    seen.due_cpu_seconds = max(seen.due_cpu_seconds, cpu)
    with broker.client() as redis:
        assert redis.llen(str(Queue.MAINTENANCE)) == seen.due_count
        redis.flushall()


@contextmanager
def _context(urls: LedgerUrls, broker: BrokerAddress, home: Path, clock: StoppedClock) -> Iterator["JobContext"]:
    settings = Settings(
        broker_url=broker.url,
        database_url=urls.ledger,
        journal_url=urls.journal,
        qdrant_url="http://127.0.0.1:9",
        home=home,
        company=COMPANY,
    )
    with ExitStack() as opened:
        ledger = opened.enter_context(closing(Ledger.open(urls, clock=clock)))
        app = opened.enter_context(closing(create_app(settings)))
        made = SimpleNamespace(
            company=COMPANY, ledger=ledger, policies=_policies(home), dispatcher=BrokerDispatcher(app), clock=clock
        )
        yield cast("JobContext", made)


def _register(job_context: "JobContext", numbers: range) -> None:
    interval = job_context.policies.policy.memory.consolidation.interval
    for place, company in enumerate(_companies()):
        names = [f"agent-{number}" for number in numbers[place::COMPANIES]]
        job_context.ledger.agents.register(company, names, interval=interval)


def _companies() -> list[str]:
    return [COMPANY, *(f"company-{number}" for number in range(1, COMPANIES))]


def _policies(home: Path) -> CompanyPolicies:
    """Give each company a policy file, and return what reads them."""
    folder = home / "policies"
    folder.mkdir(exist_ok=True)
    for company in _companies():
        (folder / f"{company}.yaml").write_text("memory: {consolidation: {max_memories_per_agent: 5000}}")
    settings = Settings(
        broker_url="redis://127.0.0.1:9",
        database_url="postgresql://127.0.0.1:9/none",
        qdrant_url="http://127.0.0.1:9",
        home=home,
    )
    return CompanyPolicies(settings, Policy())


def _peak_of_a_child(urls: LedgerUrls, home: Path) -> float:
    answer = subprocess.run(
        [sys.executable, __file__, "ticking", urls.ledger, urls.journal, str(home)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(answer.stdout)


def _ticking(ledger_url: str, journal_url: str, home: str) -> None:
    """Tick as the child of a measurement, and print this process's peak in MiB."""
    clock = StoppedClock()
    with closing(Ledger.open(LedgerUrls(ledger=ledger_url, journal=journal_url), clock=clock)) as ledger:
        made = SimpleNamespace(company=COMPANY, ledger=ledger, policies=_policies(Path(home)), clock=clock)
        for _ in range(IDLE_TICKS):
            perform(tick, "{}", cast("JobContext", made))
    print(psutil.Process().memory_info().rss / 2**20)  # noqa: T201  # its answer


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    if argv[:1] == ["ticking"]:
        _ticking(*argv[1:])
        return 0
    known, due = (int(text) for text in (*argv, *("100000", "10000")[len(argv) :]))
    figures, targets = scheduling(known=known, due=due)
    show(figures, targets, {"idle ticks": IDLE_TICKS, "median ms": f"{statistics.median(figures[0].samples):.2f}"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
