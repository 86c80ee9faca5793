"""Claim and finish no-op work items one by one, on each database, beside procrastinate on the same PostgreSQL.

``python tests/benchmarks/work_queue.py [items] [turns]`` prints items per second. Each side has one process: threads
that claim by key, as a worker does when a message names its item, and procrastinate's own worker.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from time import perf_counter, process_time

import procrastinate
import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from support.ledger_records import COMPANY, postgres_database, sqlite_urls  # noqa: E402
from support.postgres_server import postgres_server  # noqa: E402

from memcore.clock import utc_now  # noqa: E402
from memcore.config.urls import LedgerUrls  # noqa: E402
from memcore.jobs import EvolvePayload  # noqa: E402
from memcore.ledger.learning.skill_cycles import Cycle  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from memcore.ledger.tables import skill_cycles  # noqa: E402
from memcore.ledger.work_items import WorkKey, new_item  # noqa: E402

#: Items that are claimed at a time: by as many threads, or by procrastinate's worker.
CONCURRENCIES = (1, 4)

_LEASE = timedelta(seconds=45)

#: Does so many items at such a concurrency, and returns wall and CPU seconds.
Contender = Callable[[int, int], tuple[float, float]]


def work_queue(*, items: int, turns: int) -> list[Figure]:
    """Let the contenders take turns."""
    seen: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with _contenders() as contenders:
        for turn in range(turns + 1):
            for name, contender in contenders.items():
                for concurrency in CONCURRENCIES:
                    taken = contender(items if turn else 200, concurrency)
                    if turn:  # the first one warms up
                        seen.setdefault((name, concurrency), []).append(taken)
    return [
        Figure(
            group="claim and finish a no-op item",
            name=f"{name}, {concurrency} at a time",
            unit="items/s",
            samples=[items / wall for wall, _ in taken],
            cpu_ms=sum(cpu for _, cpu in taken) * 1e3 / items / len(taken),
            note="CPU of the worker's process, without the database's",
        )
        for (name, concurrency), taken in seen.items()
    ]


@contextmanager
def _contenders() -> Iterator[dict[str, Contender]]:
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder:
        found: dict[str, Contender] = {"memtend on SQLite": _Items(sqlite_urls(Path(folder)))}
        try:
            with postgres_server() as server, postgres_database(server) as url, postgres_database(server) as peer:
                found["memtend on PostgreSQL"] = _Items(LedgerUrls(ledger=url, journal=url))
                found["procrastinate on PostgreSQL"] = _Procrastinate(peer)
                yield found
                return
        except pytest.skip.Exception as absent:
            sys.stderr.write(f"PostgreSQL is left out: {absent}\n")
        yield found


class _Items:
    """Cycles of the evolver, the smallest kind: its own row has a report."""

    def __init__(self, urls: LedgerUrls) -> None:
        migrate(urls)
        self._urls = urls
        self._planned = 0

    def __call__(self, items: int, concurrency: int) -> tuple[float, float]:
        with closing(Ledger.open(self._urls)) as ledger:
            keys = self._plan(ledger, items)

            def work(mine: Sequence[str]) -> None:
                for key in mine:
                    claimed = ledger.skill_cycles.claim(COMPANY, key, lease=_LEASE)
                    assert claimed is not None
                    assert claimed.token is not None
                    ledger.skill_cycles.finish(COMPANY, key, claimed.token, {})

            with ThreadPoolExecutor(concurrency) as threads:
                begun, cpu = perf_counter(), process_time()
                done = [threads.submit(work, keys[number::concurrency]) for number in range(concurrency)]
                for each in done:
                    each.result()
                return perf_counter() - begun, process_time() - cpu

    def _plan(self, ledger: Ledger, items: int) -> list[str]:
        cycles, now = ledger.skill_cycles, utc_now()
        keys = [f"{self._planned + number:08}" for number in range(items)]
        self._planned += items
        own = Cycle(cycle_id="", origin="manual", planned_at=now, window_start=now, window_end=now)
        row = own.model_dump(include=set(skill_cycles.c.keys())) | {"company": COMPANY, "report": None}
        rows = [
            new_item(
                WorkKey(COMPANY, EvolvePayload.task, key),
                EvolvePayload(company=COMPANY, cycle_id=key, planned_at=now),
                now=now,
            )
            for key in keys
        ]
        with cycles._database.write() as connection:  # in one transaction: what is measured comes after it
            cycles._insert(connection, {key: row | {"cycle_id": key} for key in keys}, rows)
        return keys


class _Procrastinate:
    """Its own worker, on its defaults."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("postgresql+psycopg", "postgresql")
        asyncio.run(self._prepare())

    def __call__(self, items: int, concurrency: int) -> tuple[float, float]:
        return asyncio.run(self._work(items, concurrency))

    def _app(self) -> procrastinate.App:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self._url))
        app.task(name="noop")(_noop)
        return app

    async def _prepare(self) -> None:
        app = self._app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def _work(self, items: int, concurrency: int) -> tuple[float, float]:
        app = self._app()
        async with app.open_async():
            await app.tasks["noop"].batch_defer_async(*({} for _ in range(items)))
            begun, cpu = perf_counter(), process_time()
            await app.run_worker_async(concurrency=concurrency, wait=False, listen_notify=False)
            taken = perf_counter() - begun, process_time() - cpu
            found = await app.job_manager.list_jobs_async(status="todo")
            assert not list(found)
        return taken


async def _noop() -> None:
    """Do nothing."""


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    items, turns = (int(text) for text in (*argv, *("10000", "3")[len(argv) :]))
    show(work_queue(items=items, turns=turns), [], {"items": items})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
