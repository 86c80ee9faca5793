"""Scheduler and work table at sizes that no machine here holds: ``python tests/benchmarks/simulation.py [agents ...]``.

(10000 100000 1000000.) No stack runs. A ledger (SQLite, and PostgreSQL where its wheel is installed) gets its rows in
bulk: so many agents of a hundredth as many companies, due in equal parts over a day, as many runs that are done, and as
many tombstones. Then the real code's calls are timed, each with its query plans: one that reads a whole large table is
named. A power law is fitted to each call, and the last table says how much of a day the work of a day takes.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from string import Template
from time import perf_counter, process_time
from typing import Any, TypeVar

import numpy as np
import psutil
import pytest
from sqlalchemy import event, text

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from support.ledger_records import StoppedClock, postgres_database, sqlite_urls  # noqa: E402
from support.postgres_server import postgres_server  # noqa: E402

from memcore import ids  # noqa: E402
from memcore.config.policy import Policy  # noqa: E402
from memcore.config.settings import Settings  # noqa: E402
from memcore.config.urls import LedgerUrls  # noqa: E402
from memcore.jobs import MaintenancePayload  # noqa: E402
from memcore.ledger.companies import CompanyPolicies  # noqa: E402
from memcore.ledger.database import Database  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from memcore.ledger.work_items import WorkItem, WorkState  # noqa: E402
from memcore.models.memory import ConsolidationInterval  # noqa: E402
from scheduler.tick import CLAIM_BATCH  # noqa: E402

#: Agents that are simulated by default; each is a run a day.
SIZES = (10_000, 100_000, 1_000_000)

#: Agents of one company.
OF_A_COMPANY = 100

#: Stores a second that the largest installation has, and the memories of one batch.
STORES, BATCH = 2_000, 256

#: Times that each call is made.
_CALLS = 5

#: Items that are claimed and finished one after another.
_ITEMS = 300

_T = TypeVar("_T")

_DAY = timedelta(days=1)
_DAILY = ConsolidationInterval.DAILY

#: What differs between the databases. The last two are the base time, and that plus the steps of a row.
_SQLITE = {
    "series": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $size - 1)",
    "number": "CAST(n.i AS TEXT)",
    "company": "'company-' || CAST(n.i % $companies AS TEXT)",
    "false": "0",
    "empty": "'{}'",
    "base": ":base",
    "later": "strftime('%Y-%m-%d %H\\:%M\\:%f', :base, '+' || CAST((n.i + 1) * $step AS TEXT) || ' seconds') || '000'",
}
_POSTGRESQL = _SQLITE | {
    "false": "false",
    "empty": "CAST('{}' AS jsonb)",
    "base": "CAST(:base || '+00' AS timestamptz)",
    "later": "CAST(:base || '+00' AS timestamptz) + (n.i + 1) * $step * interval '1 second'",
}

#: The rows of each table, by number: agents by turns of the companies, each with a run that is done.
_LEDGER_ROWS = (
    """INSERT INTO companies (company, state, created_at, changed_at) $series
    SELECT 'company-' || $number, 'active', $base, $base FROM n WHERE n.i > 0 AND n.i < $$companies""",
    """INSERT INTO agents (company, agent_id, retention_overrides, paused, next_due_at, registered_at) $series
    SELECT $company, 'agent-' || $number, $empty, $false, $later, $base FROM n""",
    """INSERT INTO work_items (company, kind, key, agent_id, state, attempt, dispatches, created_at, finished_at)
    $series SELECT $company, 'memory.maintenance.run', 'done-' || $number, 'agent-' || $number, 'done', 1, 1, $base,
    $base FROM n""",
    """INSERT INTO runs (company, agent_id, run_id, kind, origin, step, planned_at, created_at, allow_large, counts)
    $series SELECT $company, 'agent-' || $number, 'done-' || $number, 'maintenance', 'scheduled', 'finished', $base,
    $base, $false, $empty FROM n""",
)
_JOURNAL_ROWS = (
    """INSERT INTO tombstones (memory_id, booking_id, buried_at) $series
    SELECT 'gone-' || $number, 'entry', $base FROM n""",
)

#: Tables that grow with the agents.
_LARGE = ("agents", "work_items", "runs", "tombstones")


@dataclass(kw_only=True)
class Call:
    """One call at one size.

    Attributes:
        ms: one value for each time that it was made: CPU time on SQLite, wall time on PostgreSQL.
        scans: large tables that one of its statements reads as a whole.
        a_day: how often a day needs it at this size; 0 where that depends on people.
    """

    name: str
    ms: list[float] = field(default_factory=list)
    scans: set[str] = field(default_factory=set)
    a_day: float = 0.0

    @property
    def quartile(self) -> float:
        """The lower one: what other work on the machine adds is in the upper ones."""
        return float(np.percentile(self.ms, 25))


class Simulation:
    """A ledger of one size, and the calls."""

    def __init__(self, urls: LedgerUrls, home: Path, *, size: int) -> None:
        self._clock, self._size, self._home = StoppedClock(), size, home
        self._ledger = Ledger.open(urls, clock=self._clock)
        self._databases = [Database(urls.ledger, name="ledger"), Database(urls.journal, name="journal")]
        self._calls: dict[str, Call] = {}
        # SQLite runs in this process, and its CPU time is not moved by other work; a server's is another process's.
        self._claimed: tuple[WorkItem, ...] = ()
        self._now: Callable[[], float] = process_time if self._databases[0].dialect == "sqlite" else perf_counter
        self._companies = [f"company-{number}" for number in range(size // OF_A_COMPANY)]

    def close(self) -> None:
        self._ledger.close()
        for database in self._databases:
            database.close()

    def run(self) -> dict[str, Call]:
        """Fill the ledger, and make every call."""
        self._fill()
        self._ticks()
        self._backlog()
        self._monitoring()
        self._stores()
        return self._calls

    def _fill(self) -> None:
        ledger, journal = self._databases
        sql = _SQLITE if ledger.dialect == "sqlite" else _POSTGRESQL
        sizes = {"size": self._size, "companies": len(self._companies), "step": _DAY.total_seconds() / self._size}
        base = f"{self._clock.now:%Y-%m-%d %H:%M:%S.%f}"
        self._ledger.companies.register(self._companies[0])  # the code's own row of a table is like the others
        for database, statements in ((ledger, _LEDGER_ROWS), (journal, _JOURNAL_ROWS)):
            with database.write() as connection:
                for statement in statements:
                    filled = Template(statement).substitute(sql)
                    connection.execute(text(Template(filled).substitute(sizes)), {"base": base})
        if ledger.dialect != "sqlite":  # its autovacuum would, in a minute; SQLite has no statistics in reality either
            with ledger.write() as connection:
                connection.execute(text("ANALYZE"))

    def _ticks(self) -> None:
        agents, every = self._ledger.agents, 8_640.0
        self._time("tick: is anybody due (nobody is)", lambda: agents.due(default=_DAILY), a_day=every)
        take_due = self._ledger.work.take_due
        self._time("sweep: lost work (there is none)", lambda: take_due(limit=1_000), a_day=5_760.0)
        policies = CompanyPolicies(
            Settings(
                broker_url="redis://127.0.0.1:9",
                database_url="postgresql://127.0.0.1:9/none",
                qdrant_url="http://127.0.0.1:9",
                home=self._home,
                company=self._companies[0],
            ),
            Policy(),
        )
        served = "tick and sweep: read all companies"
        self._time(served, lambda: policies.served(self._ledger.companies), a_day=every * (1 + 2 / 3))
        for _ in range(_CALLS):
            self._clock.advance(timedelta(seconds=10))
            due = self._time("tick: whose agents are due", lambda: agents.due(default=_DAILY), times=1, a_day=every)
            claim = partial(self._claim, list(due))
            self._claimed = self._time("tick: claim the due ones of 10 s", claim, times=1, a_day=every)

    def _claim(self, names: Sequence[str]) -> tuple[WorkItem, ...]:
        return self._ledger.agents.claim_due(names, interval=_DAILY, limit=CLAIM_BATCH)

    def _backlog(self) -> None:
        """Nothing ran for a while: first an hour, then a day."""
        ledger = self._ledger
        for name, away in (("an hour", timedelta(hours=1)), ("a day", _DAY)):
            self._clock.advance(away)
            claim = partial(self._claim, list(ledger.agents.due(default=_DAILY)))
            for _ in range(3 if away == _DAY else 1):
                self._claimed = self._time(f"after {name}: claim {CLAIM_BATCH:,}", claim, times=1)
        self._work(self._claimed[:_ITEMS])
        # As many open items as a tenth of the agents, their messages lost.
        with self._databases[0].write() as connection:
            lost = """UPDATE work_items SET state = 'available', queue = 'maintenance', payload = '{}',
            dispatch_after = created_at WHERE kind = :kind AND key LIKE 'done-%7'"""
            connection.execute(text(lost), {"kind": MaintenancePayload.task})
        self._time("sweep: 1,000 of a tenth of all, lost", lambda: ledger.work.take_due(limit=1_000), times=1)

    def _work(self, items: Sequence[WorkItem]) -> None:
        runs, lease = self._ledger.runs, timedelta(seconds=45)
        each = iter(items)

        def once() -> None:
            item = next(each)
            run = runs.claim(item.company, item.key, lease=lease)
            assert run is not None
            assert run.token is not None
            runs.renew(item.company, item.key, run.token, lease=lease)
            runs.finish(item.company, item.key, run.token, state=WorkState.DONE, counts={"expired": 1})

        self._time("run: claim, renew, finish", once, times=len(items), a_day=float(self._size))

    def _monitoring(self) -> None:
        ledger, minute = self._ledger, 1_440.0
        self._time("metrics: counts of all work", ledger.work.counts, a_day=minute)
        self._time("metrics: oldest due item by queue", ledger.figures.oldest_due, a_day=minute)
        before = self._clock.now - timedelta(minutes=5)
        self._time("metrics: late agents", lambda: ledger.agents.late(default=_DAILY, before=before), a_day=minute)
        self._time("metrics: agents of each company", ledger.agents.counts, a_day=minute)
        company, since = self._companies[0], self._clock.now - _DAY
        self._time("metrics: runs of one company", lambda: ledger.figures.runs(company, since=since))
        self._time("console: a page of agents", lambda: ledger.agents.list(company, limit=100))
        self._time("console: a company's newest runs", lambda: ledger.runs.list(company, limit=100))

    def _stores(self) -> None:
        ledger, step = self._ledger, max(1, len(self._companies))
        agent_ids = [f"agent-{number * step}" for number in range(min(BATCH, OF_A_COMPANY))]
        sent = {ids.new_id(): self._clock.now for _ in range(BATCH)}

        def batch() -> None:
            ledger.agents.levels(self._companies[0], agent_ids)
            ledger.journal.tombstoned(sent)
            ledger.journal.tombstoned(sent)
            ledger.agents.register(self._companies[0], agent_ids, interval=_DAILY)

        self._time(f"store: what a batch of {BATCH} reads", batch, times=20, a_day=STORES / BATCH * 86_400)

    def _time(self, name: str, call: Callable[[], _T], *, times: int = _CALLS, a_day: float = 0.0) -> _T:
        known = self._calls.setdefault(name, Call(name=name, a_day=a_day))
        answers = []
        with self._statements() as seen:
            for number in range(times):
                begun = self._now()
                answers.append(call())
                known.ms.append((self._now() - begun) * 1e3)
                if number == 0:
                    known.scans |= self._scanned(seen)
                    seen.clear()
        return answers[-1]

    @contextmanager
    def _statements(self) -> Iterator[list[tuple[Database, str, Any]]]:
        """Collect the reads and updates that the code sends."""
        seen: list[tuple[Database, str, Any]] = []
        with ExitStack() as opened:
            for mine, theirs in zip(self._databases, (self._ledger.agents, self._ledger.journal), strict=True):
                hear = _listener(mine, seen)
                engine = theirs._database.engine()
                event.listen(engine, "before_cursor_execute", hear)
                opened.callback(event.remove, engine, "before_cursor_execute", hear)
            yield seen

    def _scanned(self, seen: Sequence[tuple[Database, str, Any]]) -> set[str]:
        found: set[str] = set()
        for database, statement, given in {(id(one[0]), one[1]): one for one in seen}.values():
            with database.read() as connection:
                is_sqlite = database.dialect == "sqlite"
                explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
                plan = connection.exec_driver_sql(explain + statement, given).all()
            lines = "\n".join(str(row[-1]) for row in plan)
            # What is read through an index of open items alone does not grow with those that are done.
            pattern = r"SCAN (\w+)(?! USING (?:COVERING )?INDEX work_items_)" if is_sqlite else r"Seq Scan on (\w+)"
            found |= {name for name in re.findall(pattern, lines) if name in _LARGE}
        return found


def _listener(database: Database, seen: list[tuple[Database, str, Any]]) -> Callable[..., None]:
    def hear(_connection: object, _cursor: object, statement: str, given: Any, _context: object, many: bool) -> None:
        if not many and statement.lstrip()[:6].upper() in {"SELECT", "UPDATE", "WITH R"}:
            seen.append((database, statement, given))

    return hear


def simulation(sizes: Sequence[int]) -> tuple[list[Figure], list[Target]]:
    """Simulate every size on each database that this machine has."""
    figures: list[Figure] = []
    targets: list[Target] = []
    for name, databases in (("SQLite", _sqlite), ("PostgreSQL", _postgres)):
        seen: dict[int, dict[str, Call]] = {}
        try:
            for size in sizes:
                with databases() as (urls, home):
                    migrate(urls)
                    with closing(Simulation(urls, home, size=size)) as simulated:
                        seen[size] = simulated.run()
                _progress(name, size, seen[size])
        except pytest.skip.Exception as absent:
            sys.stderr.write(f"{name} is left out: {absent}\n")
            continue
        figures += _figures(name, seen)
        targets += _targets(name, seen[sizes[-1]], sizes[-1])
    return figures, targets


@contextmanager
def _sqlite() -> Iterator[tuple[LedgerUrls, Path]]:
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder:
        yield sqlite_urls(Path(folder)), Path(folder)


@contextmanager
def _postgres() -> Iterator[tuple[LedgerUrls, Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder,
        postgres_server() as server,
        postgres_database(server) as url,
    ):
        yield LedgerUrls(ledger=url, journal=url), Path(folder)


def _progress(name: str, size: int, calls: dict[str, Call]) -> None:
    sys.stderr.write(f"{name}, {size:,} agents\n")
    for call in calls.values():
        sys.stderr.write(f"  {call.name}: {call.quartile:.2f} ms {' '.join(sorted(call.scans))}\n")


def _figures(name: str, seen: dict[int, dict[str, Call]]) -> list[Figure]:
    figures, sizes = [], list(seen)
    for call in seen[sizes[-1]].values():
        quartiles = [seen[size][call.name].quartile for size in sizes]
        exponent = float(np.polyfit(np.log(sizes), np.log(quartiles), 1)[0]) if len(sizes) > 1 else 0.0
        grown = " / ".join(f"{each:.2f}" for each in quartiles)
        share = f"; {call.quartile * call.a_day / 86_400_000:.1%} of a day" if call.a_day else ""
        scans = f"; SCANS {', '.join(sorted(call.scans))}" if call.scans else ""
        note = f"{grown}; size^{exponent:.2f}{share}{scans}"
        group = f"{name}, {sizes[-1]:,} agents, {'CPU' if name == 'SQLite' else 'wall'} time"
        figures.append(Figure(group=group, name=call.name, unit="ms", samples=call.ms, note=note))
    return figures


def _targets(name: str, calls: dict[str, Call], size: int) -> list[Target]:
    busy = sum(call.quartile * call.a_day for call in calls.values()) / 86_400_000
    tick = sum(call.quartile for call in calls.values() if call.name.startswith("tick"))
    after = next(call for call in calls.values() if call.name.startswith("after a day"))
    days_runs = after.quartile * size / CLAIM_BATCH / 1e3
    return [
        Target(name=f"{name}: ledger seconds of a day's work, by the day", values=[busy], wanted=0.5, at_most=True),
        Target(name=f"{name}: a tick with the due ones of 10 s, ms", values=[tick], wanted=2_000.0, at_most=True),
        Target(name=f"{name}: claim a day's runs after a day, s", values=[days_runs], wanted=3_600.0, at_most=True),
    ]


def main(argv: Sequence[str]) -> int:
    """Simulate and print."""
    sizes = [int(each) for each in argv] or list(SIZES)
    show(*simulation(sizes), {"cores": psutil.cpu_count(), "companies": sizes[-1] // OF_A_COMPANY})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
