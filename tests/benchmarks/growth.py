"""What grows with the memories of one machine: ``python tests/benchmarks/growth.py [size ...]`` (10000 20000 100000).

A real stack (`memtend up`, static embedder). One company's collection grows to each size in turn, 1,000 memories an
agent, by the call that a store worker's batch writer makes. At each size it measures bulk loads over the queue, the
search, the store server's memory and disk, and its restart after kill -9; at the largest, the maintenance of all
agents and of a fleet of 1,000 small ones.

Two things are measured in pairs, so that other work on the machine meets both alike: a bulk load beside one into a
small collection, and each search beside the same one in a collection of 20,000 memories.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
from sqlalchemy import create_engine, text

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.meter import measured  # noqa: E402
from benchmarks.raw_limit import BATCH  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.stack import BenchStack, open_home  # noqa: E402
from benchmarks.texts import Texts, questions  # noqa: E402

from memcore.backends.base import fresh_record  # noqa: E402
from memcore.backends.factory import WorkerBackend  # noqa: E402
from memcore.client.client import MemoryClient  # noqa: E402
from memcore.client.envelopes import ImportRecord  # noqa: E402
from memcore.clock import utc_now  # noqa: E402
from memcore.jobs import MaintenancePayload, TickPayload  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.models.answers import Shown  # noqa: E402
from memcore.models.memory import ConsolidationInterval, MemoryQuery  # noqa: E402
from workers.broker import broker_app  # noqa: E402

#: Sizes that are measured by default; 1,000,000 takes about half an hour on two quiet cores.
SIZES = (10_000, 20_000, 100_000)

#: Memories of one agent.
OF_AN_AGENT = 1_000

#: Memories of the collection that every search is compared with.
REFERENCE = 20_000

#: Small agents that are maintained beside those that grow: what the target is about.
FLEET_AGENTS = 1_000

#: Memories of one measurement while the collection grows.
_CHUNK = 2_048

#: Memories after which the agents' turns are shifted by one: the texts repeat, too.
_ROUND = 50

#: Pairs of bulk loads at each size, and memories in each.
_PAIRS, _PAIR_SIZE = 4, 1_024

#: Searches at each size and of the reference, each of another agent.
_SEARCHES = 300

#: Seconds between two looks whether work is done, and after which it is given up.
_POLL_SECONDS, _LIMIT_SECONDS = 0.05, 900.0

#: The interval of the agents that are registered by hand: they come due when they are to be maintained.
_INTERVAL = ConsolidationInterval.DAILY

#: Counts the runs that are done.
_DONE = text("SELECT count(*) FROM work_items WHERE kind = :kind AND state = 'done'").bindparams(
    kind=MaintenancePayload.task
)

_GROWING, _REFERENCE, _SMALL, _FLEET = "bench-growing", "bench-reference", "bench-small", "bench-fleet"


@dataclass(frozen=True, kw_only=True)
class ServerMemory:
    """What the store server holds in memory, in bytes: its own, and pages of files that the kernel may drop."""

    rss: int
    pss: int
    anonymous: int

    @classmethod
    def of(cls, pid: int) -> "ServerMemory":
        """Read it from Linux."""
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return cls(rss=kib["Rss"] * 1024, pss=kib["Pss"] * 1024, anonymous=kib["Anonymous"] * 1024)


@dataclass(kw_only=True)
class Seen:
    """What one size gave.

    Attributes:
        first, last: of the first and the last tenth of the growth to this size: memories a second, and milliseconds of
            CPU of writer and store server for one.
        paired: rate here by the rate into a small collection, pair by pair.
        search_ms, reference_ms: one value for each search.
        memory, disk: of the store server, in bytes; memory right after the load, and after the restart.
        ready, answered: seconds from kill -9 until the new process is ready, and until a search is answered.
        maintenance: seconds of the runs of all agents, and how many those are; at the largest size alone.
    """

    size: int
    first: list[tuple[float, float]] = field(default_factory=list)
    last: list[tuple[float, float]] = field(default_factory=list)
    paired: list[float] = field(default_factory=list)
    search_ms: list[float] = field(default_factory=list)
    reference_ms: list[float] = field(default_factory=list)
    memory: ServerMemory
    memory_restarted: ServerMemory
    disk: int
    ready: float
    answered: float
    maintenance: float | None = None
    agents: int = 0


class Growth:
    """One running stack whose memories become more."""

    def __init__(self, stack: BenchStack, opened: ExitStack) -> None:
        self._stack = stack
        self._opened = opened
        self._texts = Texts()
        self._qdrant = opened.enter_context(closing(stack.qdrant()))
        self._ledger = opened.enter_context(closing(Ledger.open(stack.settings.ledger_urls)))
        self._database = create_engine(stack.settings.database_url)
        opened.callback(self._database.dispose)
        self._clients: dict[str, MemoryClient] = {}
        self._stored: dict[str, int] = {}
        self._maintained = 0
        self._grown = 0

    def prepare(self) -> None:
        """Fill the collection that searches are compared with, and store what the fleet of small agents has."""
        self._load(_REFERENCE, REFERENCE, agents=range(REFERENCE // OF_AN_AGENT))
        self._load(_FLEET, FLEET_AGENTS * 3, agents=range(FLEET_AGENTS))
        self._load(_SMALL, 1, agents=range(1))
        self._load(_GROWING, 1, agents=range(1))
        self._empty_memory = ServerMemory.of(self._pid())
        self._empty_disk = self._disk()

    def grow(self, size: int) -> Seen:
        """Grow to a size and measure there."""
        # The pairs of the size before have stored more, in agents that were there.
        agents = range(self._grown // OF_AN_AGENT, size // OF_AN_AGENT)
        written = self._written(size - self._stored[_GROWING], agents=agents)
        self._grown = size
        tenth = max(1, len(written) // 10)
        memory, disk = self._memory(), self._disk()
        paired = self._paired(agents)
        here, reference = self._search(size // OF_AN_AGENT)
        ready, answered = self._restart()
        return Seen(
            size=size,
            first=written[:tenth],
            last=written[-tenth:],
            paired=paired,
            search_ms=here,
            reference_ms=reference,
            memory=memory,
            memory_restarted=self._memory(),
            disk=disk - self._empty_disk,
            ready=ready,
            answered=answered,
        )

    def _memory(self) -> ServerMemory:
        now, empty = ServerMemory.of(self._pid()), self._empty_memory
        return ServerMemory(rss=now.rss - empty.rss, pss=now.pss - empty.pss, anonymous=now.anonymous - empty.anonymous)

    def _written(self, count: int, *, agents: range) -> list[tuple[float, float]]:
        """Write memories into the growing collection without the queue; return the rate and the CPU of each chunk."""
        seen = []
        at = self._stored[_GROWING]
        with self._stack.backend(_GROWING) as (backend, runner):
            for start in range(at, at + count, _CHUNK):
                size, now = min(_CHUNK, at + count - start), utc_now()
                made = [
                    fresh_record(_whose(number, agents), request, company=_GROWING, now=now - timedelta(seconds=number))
                    for number, request in enumerate(self._texts.requests(size, mark=f"{start} direct"))
                ]
                with measured(self._server) as taken:
                    for first in range(0, size, BATCH):
                        runner.run(backend.store_many(made[first : first + BATCH]))
                seen.append((size / taken.wall, taken.cpu * 1e3 / size))
        self._stored[_GROWING] = at + count
        self._ledger.agents.register(_GROWING, [f"agent-{number}" for number in agents], interval=_INTERVAL)
        return seen

    def _server(self) -> dict[str, int]:
        return {"store-server": self._pid()}

    def _load(self, company: str, count: int, *, agents: range, expired: bool = False) -> float:
        """Send memories of a company over the bulk queue, wait until all are on disk, return memories a second."""
        stored = self._stored.get(company, 0)
        if company not in self._clients:
            self._ledger.companies.add(company)
            settings = self._stack.settings.model_copy(update={"company": company})
            self._clients[company] = self._opened.enter_context(MemoryClient.from_settings(settings))
        now = utc_now()
        records = [
            ImportRecord(
                agent_id=_whose(number, agents),
                category=request.category,
                content=request.content,
                created_at=now - timedelta(days=1 if expired else 0, seconds=number),
                expires_at=now - timedelta(hours=1) if expired else None,
            )
            for number, request in enumerate(self._texts.requests(count, mark=f"{company} {stored} {self._maintained}"))
        ]
        begun = time.perf_counter()
        self._clients[company].import_many(records, track=False)
        self._stored[company] = stored + count
        self._await(lambda: self._count(company) >= self._stored[company], f"{company} is stored")
        return count / (time.perf_counter() - begun)

    def _count(self, company: str) -> int:
        # Not an exact count, which would cost the store a millisecond for 15,000 points at every look.
        if not self._qdrant.collection_exists(f"memtend_{company}"):
            return 0
        return self._qdrant.get_collection(f"memtend_{company}").points_count or 0

    def _paired(self, agents: range) -> list[float]:
        ratios = []
        for number in range(_PAIRS):
            # By turns: what comes first meets the caches that the other one left.
            order = (_GROWING, _SMALL) if number % 2 else (_SMALL, _GROWING)
            rates = {company: self._load(company, _PAIR_SIZE, agents=agents) for company in order}
            ratios.append(rates[_GROWING] / rates[_SMALL])
        return ratios

    def _search(self, agents: int) -> tuple[list[float], list[float]]:
        texts = questions()
        here: list[float] = []
        reference: list[float] = []
        with self._stack.backend(_GROWING) as (grown, runner), self._stack.backend(_REFERENCE) as (small, other):
            for number in range(-10, _SEARCHES):
                query = texts[number % len(texts)]
                for taken, backend, run, most in (
                    (here, grown, runner, agents),
                    (reference, small, other, REFERENCE // OF_AN_AGENT),
                ):
                    # A step that is prime to the number of agents: neighbours in time are not neighbours on disk.
                    ms = _asked(backend, run, f"agent-{number * 7919 % most}", query)
                    if number >= 0:  # the first ones warm up
                        taken.append(ms)
        return here, reference

    def _restart(self) -> tuple[float, float]:
        """Kill the store server, and return the seconds until its successor is ready, and answers a search."""
        before, begun = self._pid(), time.perf_counter()
        os.kill(before, signal.SIGKILL)
        self._await(self._is_ready, "the store server is ready")
        ready = time.perf_counter() - begun
        with self._stack.backend(_GROWING) as (backend, runner):
            _asked(backend, runner, "agent-0", questions()[0])
        answered = time.perf_counter() - begun
        self._await(lambda: self._pid() not in (0, before), "the supervisor knows the new process")
        return ready, answered

    def _is_ready(self) -> bool:
        try:
            self._qdrant.get_collections()
        except Exception:  # noqa: BLE001  # whatever the client makes of a server that is not there
            return False
        return True

    def maintain(self, agents: int) -> tuple[float, int]:
        """Make every agent due, give each of the small fleet one expired memory, send a tick, wait for all runs.

        Return the seconds, and how many agents those were.
        """
        self._load(_FLEET, FLEET_AGENTS, agents=range(FLEET_AGENTS), expired=True)
        self._stored[_FLEET] -= FLEET_AGENTS  # the runs remove them
        known = FLEET_AGENTS + agents
        self._await(lambda: self._agents() == known, "every agent is registered")
        due = f"{utc_now() - timedelta(minutes=1):%Y-%m-%d %H:%M:%S.%f}"
        with self._database.begin() as connection:
            done = connection.execute(_DONE).scalar_one()
            update = text("UPDATE agents SET next_due_at = :due WHERE company IN (:growing, :fleet)")
            count = connection.execute(update, {"due": due, "growing": _GROWING, "fleet": _FLEET}).rowcount
        begun = time.perf_counter()
        with closing(broker_app(self._stack.settings)) as app:
            app.send_task(TickPayload.task, queue=str(TickPayload.queue), ignore_result=True)

        def is_over() -> bool:
            with self._database.connect() as connection:
                return bool(connection.execute(_DONE).scalar_one() >= done + count)

        self._await(is_over, f"the runs of {count} agents are done")
        assert count == known
        self._maintained += 1
        return time.perf_counter() - begun, count

    def _agents(self) -> int:
        return self._ledger.agents.count(_FLEET) + self._ledger.agents.count(_GROWING)

    def _pid(self) -> int:
        return self._stack.pids().get("store-server", 0)

    def _disk(self) -> int:
        folder = self._stack.home / "data" / "vectors"
        return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                msg = f"the time is over before {what}"
                raise TimeoutError(msg)
            time.sleep(_POLL_SECONDS)


def _whose(number: int, agents: range) -> str:
    # Every agent gets every text: one more step after each round of them.
    return f"agent-{agents[(number + number // _ROUND) % len(agents)]}"


def _asked(backend: WorkerBackend, runner: asyncio.Runner, agent_id: str, query: str) -> float:
    begun = time.perf_counter()
    runner.run(backend.retrieve(agent_id, MemoryQuery(text=query, limit=10, standing=Shown.ANY)))
    return (time.perf_counter() - begun) * 1e3


def growth(sizes: Sequence[int]) -> tuple[list[Figure], list[Target]]:
    """Measure on a stack of its own."""
    seen: list[Seen] = []
    with open_home() as stack, ExitStack() as opened:
        grown = Growth(stack, opened)
        grown.prepare()
        for size in sizes:
            seen.append(grown.grow(size))
            _progress(seen[-1])
        seen[-1].maintenance, seen[-1].agents = grown.maintain(sizes[-1] // OF_AN_AGENT)
    return [figure for each in seen for figure in _figures(each)] + _fits(seen), _targets(seen)


def _progress(seen: Seen) -> None:
    parts = (
        f"{seen.size:,}: {_medians(seen.first)} then {_medians(seen.last)}",
        f"paired {np.median(seen.paired):.2f}",
        f"search p95 {np.percentile(seen.search_ms, 95):.1f} ms, reference {np.percentile(seen.reference_ms, 95):.1f}",
        f"restart {seen.answered:.1f} s",
        f"RSS {seen.memory.rss / seen.size / 1024:.2f}, anonymous {seen.memory.anonymous / seen.size / 1024:.2f}",
        f"restarted {seen.memory_restarted.rss / seen.size / 1024:.2f} KiB a memory",
    )
    sys.stderr.write("; ".join(parts) + "\n")


def _medians(written: Sequence[tuple[float, float]]) -> str:
    rate, cpu = np.median(written, axis=0)
    return f"{rate:.0f} memories/s, {cpu:.3f} ms of CPU"


def _figures(seen: Seen) -> list[Figure]:
    group, size = f"{seen.size:,} memories of {seen.size // OF_AN_AGENT:,} agents", seen.size
    rows: list[tuple[str, str, Sequence[float], str]] = [
        *(
            (f"batch writer's call, {part} tenth: {name}", unit, [each[place] for each in written], "")
            for part, written in (("first", seen.first), ("last", seen.last))
            for place, (name, unit) in enumerate((("rate", "memories/s"), ("CPU", "ms a memory")))
        ),
        ("bulk over the queue, beside a small collection", "ratio", seen.paired, f"{_PAIRS} pairs of {_PAIR_SIZE:,}"),
        ("search p50", "ms", _fifths(seen.search_ms, 50), f"reference {_quantile(seen.reference_ms, 50):.1f}"),
        ("search p95", "ms", _fifths(seen.search_ms, 95), f"reference {_quantile(seen.reference_ms, 95):.1f}"),
        *(
            (f"{name}, {when}", "KiB a memory", [value / size / 1024], f"{value / 2**20:.0f} MiB")
            for when, memory in (("after the load", seen.memory), ("after the restart", seen.memory_restarted))
            for name, value in (("RSS", memory.rss), ("PSS", memory.pss), ("anonymous", memory.anonymous))
        ),
        ("disk", "KiB a memory", [seen.disk / size / 1024], f"{seen.disk / 2**20:.0f} MiB"),
        ("restart after kill -9 until ready", "s", [seen.ready], ""),
        ("restart after kill -9 until a search is answered", "s", [seen.answered], ""),
    ]
    if seen.maintenance is not None:
        rows.append(("maintenance", "s", [seen.maintenance], f"{seen.agents:,} due agents"))
    return [Figure(group=group, name=name, unit=unit, samples=part, note=note) for name, unit, part, note in rows]


def _fits(seen: Sequence[Seen]) -> list[Figure]:
    """Fit y = a * size ** b by least squares of the logarithms, and say what it gives of 10 times the largest size."""
    if len(seen) < 2:
        return []
    sizes, figures = [each.size for each in seen], []
    curves: dict[str, tuple[str, list[float]]] = {
        "CPU of a memory's write": ("ms", [float(np.median([cpu for _, cpu in each.last])) for each in seen]),
        "search p95, by the reference's": ("ratio", [_ratio(each, 95) for each in seen]),
        "anonymous memory": ("MiB", [each.memory.anonymous / 2**20 for each in seen]),
        "RSS": ("MiB", [each.memory.rss / 2**20 for each in seen]),
        "disk": ("MiB", [each.disk / 2**20 for each in seen]),
        "restart until ready": ("s", [each.ready for each in seen]),
    }
    for name, (unit, values) in curves.items():
        exponent, factor = np.polyfit(np.log(sizes), np.log(values), 1)
        next_size = 10 * sizes[-1]
        note = f"{np.exp(factor) * next_size**exponent:,.1f} {unit} at {next_size:,}"
        figures.append(Figure(group="growth with size", name=name, unit="exponent", samples=[exponent], note=note))
    return figures


def _targets(seen: Sequence[Seen]) -> list[Target]:
    targets = []
    begun = float(np.median([cpu for _, cpu in seen[0].first]))
    for each in seen:
        size = f"{each.size:,}"
        shares = [begun / cpu for _, cpu in each.last]
        targets += [
            Target(name=f"{size}: memories for a second of CPU, by the first tenth's", values=shares, wanted=0.8),
            Target(name=f"{size}: bulk, by a small collection's", values=each.paired, wanted=0.8),
            Target(name=f"{size}: p95, by that of 20,000", values=[_ratio(each, 95)], wanted=1.5, at_most=True),
            Target(name=f"{size}: restart to a search, s", values=[each.answered], wanted=20.0, at_most=True),
        ]
        if each.maintenance is not None:
            maintenance = each.maintenance * FLEET_AGENTS / each.agents
            targets.append(
                Target(name=f"{size}: maintenance of 1,000 agents, s", values=[maintenance], wanted=600.0, at_most=True)
            )
    return targets


def _ratio(seen: Seen, quantile: int) -> float:
    return _quantile(seen.search_ms, quantile) / _quantile(seen.reference_ms, quantile)


def _quantile(values: Sequence[float], quantile: int) -> float:
    return float(np.percentile(values, quantile))


def _fifths(values: Sequence[float], quantile: int) -> list[float]:
    return [float(np.percentile(part, quantile)) for part in np.array_split(values, 5)]


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    sizes = [int(each) for each in argv] or list(SIZES)
    least = _PAIRS * _PAIR_SIZE + OF_AN_AGENT
    if any(after - size < least for size, after in pairwise(sizes)):
        sys.exit(f"each size must be at least {least} above the one before it: the pairs are stored there, too")
    load = os.getloadavg()[0]
    show(*growth(sizes), {"cores": psutil.cpu_count(), "load before": f"{load:.1f}"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
