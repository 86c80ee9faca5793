"""``python tests/benchmarks/run.py``: stores, searches, turns, HTTP, imports, memory, queues, scheduler, skills, ...

Every figure is repeated; the contenders of one figure take turns, so that the machine's other work meets all alike.
CPU time is less moved by other work than wall time: trust ratios of it on a busy machine.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.companies import companies  # noqa: E402  # a script must find the tree first
from benchmarks.crowding import Crowding  # noqa: E402
from benchmarks.enforcing import RULES, enforcing  # noqa: E402
from benchmarks.enqueueing import OURS, RAW, enqueues  # noqa: E402  # a script must find the tree first
from benchmarks.figure import Figure, Target  # noqa: E402
from benchmarks.importing import imports  # noqa: E402
from benchmarks.loading import turn_loads  # noqa: E402
from benchmarks.maintaining import maintenance_runs  # noqa: E402
from benchmarks.meter import Measurement  # noqa: E402
from benchmarks.raw_limit import RawLimit  # noqa: E402
from benchmarks.report import save, show  # noqa: E402
from benchmarks.residence import residence  # noqa: E402
from benchmarks.retrieval.conversations import conversations  # noqa: E402
from benchmarks.scheduling import scheduling  # noqa: E402
from benchmarks.searching import Searching  # noqa: E402
from benchmarks.serving import serving  # noqa: E402
from benchmarks.skill_cycles import skill_cycles  # noqa: E402
from benchmarks.stack import BenchStack, open_home  # noqa: E402
from benchmarks.stock_mem0 import stock_mem0  # noqa: E402
from benchmarks.storing import Storing  # noqa: E402
from benchmarks.texts import Texts  # noqa: E402
from benchmarks.transport import transports  # noqa: E402
from benchmarks.weight import weights  # noqa: E402
from benchmarks.work_queue import work_queue  # noqa: E402

from memcore import MemoryClient  # noqa: E402
from memcore.embedding.bm25 import Bm25Encoder  # noqa: E402
from memcore.embedding.factory import create_embedder  # noqa: E402

_STORES = "stores, client to durable and found"
_MANY = "bulk, store_many"
_IMPORT = "bulk, import_many"
_RAW = "raw limit: embed and upsert, no queue"
_MEM0 = "mem0.Memory.add(infer=False), its own store"
_CLIENT = "import memcore.client.client"


def main(argv: Sequence[str]) -> int:
    """Measure, print, and write the JSON file that was asked for."""
    options = _options(argv)
    begun = time.monotonic()
    foreign: list[float] = []
    noise = [_spin()]
    figures = imports(options.repeats + 2) + enqueues(options.repeats)
    noise.append(_spin())
    queued, queue_targets = transports(options.jobs, options.turns)
    figures += queued
    noise.append(_spin())
    texts = Texts()
    with open_home() as stack:
        figures += _stores(stack, texts, options, foreign)
        noise.append(_spin())
        with closing(stack.qdrant()) as qdrant:
            searching = Searching(stack, qdrant, create_embedder("static"), Bm25Encoder(), texts)
            figures += searching.run(options.search, rounds=options.rounds)
            embedder = create_embedder("static")
            figures += turn_loads(stack, qdrant, embedder, texts, size=options.facts, rounds=options.rounds)
        figures += residence(stack)
        noise.append(_spin())
        with (
            closing(stack.qdrant()) as qdrant,
            MemoryClient.from_settings(stack.settings) as client,
        ):
            crowd, crowd_targets = Crowding(stack, client, qdrant, texts).run(options.crowd)
    shared, shared_targets = companies(options.company_jobs)
    agenda, agenda_targets = scheduling(known=options.agents, due=options.due)
    noise.append(_spin())
    kept, run_targets = maintenance_runs(size=options.maintenance_run, turns=options.turns)
    noise.append(_spin())
    learned, skill_targets = skill_cycles(size=options.executions, turns=1)
    found, found_targets = enforcing(RULES) if conversations() else ([], [])
    weighed, weight_targets = weights()
    served, serve_targets = serving(memories=options.served, rounds=options.rounds, seconds=5.0)
    figures += served + work_queue(items=options.items, turns=options.turns)
    figures += crowd + shared + agenda + kept + learned + found + weighed
    noise.append(_spin())
    spin = Figure(group="noise", name="the same 0.2 s of arithmetic", unit="ms", samples=noise)
    figures.append(spin)
    machine = _machine(foreign, time.monotonic() - begun)
    targets = _targets({figure.name: figure for figure in figures}) + queue_targets + crowd_targets
    targets += shared_targets + agenda_targets + run_targets + skill_targets + found_targets + weight_targets
    targets += serve_targets
    show(figures, targets, machine)
    if options.json:
        save(options.json, figures, targets, machine)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/benchmarks/run.py", description=__doc__)
    parser.add_argument("--json", type=Path, help="also write every sample to this file")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each figure (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2_000, help="no-op jobs that each queue does in one turn")
    parser.add_argument("--items", type=int, default=10_000, help="work items claimed and finished in one turn")
    parser.add_argument("--turns", type=int, default=3, help="turns of each queue and run (default: %(default)s)")
    parser.add_argument("--bulk", type=int, default=4_096, help="memories in one bulk measurement")
    parser.add_argument("--single", type=int, default=600, help="memories stored one at a time")
    parser.add_argument("--mem0", type=int, default=60, help="memories that stock mem0 adds in one measurement")
    parser.add_argument("--search", type=int, nargs="+", default=[1_000, 20_000], help="memories of the searched agent")
    parser.add_argument("--facts", type=int, default=1_000, help="facts about the person whose turns are loaded")
    parser.add_argument("--served", type=int, default=2_000, help="memories that are searched over HTTP")
    parser.add_argument("--rounds", type=int, default=4, help="times that every question is asked")
    parser.add_argument("--crowd", type=int, default=20_000, help="memories of the load that one store waits beside")
    parser.add_argument("--company-jobs", type=int, default=50_000, help="store jobs of a company beside 199 others")
    parser.add_argument("--agents", type=int, default=100_000, help="agents known to the scheduler")
    parser.add_argument(
        "--maintenance-run", type=int, default=10_000, help="memories of the agent whose runs are measured"
    )
    parser.add_argument("--executions", type=int, default=50_000, help="executions that the evolver looks at")
    parser.add_argument("--due", type=int, default=10_000, help="agents due at once, about")
    return parser.parse_args(argv)


def _stores(stack: BenchStack, texts: Texts, options: argparse.Namespace, foreign: list[float]) -> list[Figure]:
    embedder, encoder = create_embedder("static"), Bm25Encoder()
    with (
        closing(stack.qdrant()) as qdrant,
        MemoryClient.from_settings(stack.settings) as client,
        stock_mem0(embedder, texts) as mem0,
    ):
        storing = Storing(stack, client, qdrant, texts)
        raw = RawLimit(stack, qdrant, embedder, encoder, texts)
        contenders: dict[str, tuple[int, Callable[[int], Measurement]]] = {
            "one at a time, 1 thread": (options.single, lambda n: storing.one_at_a_time(n, threads=1)),
            "one at a time, 4 threads": (options.single, lambda n: storing.one_at_a_time(n, threads=4)),
            _MANY: (options.bulk, storing.many),
            _IMPORT: (options.bulk, storing.imported),
            _RAW: (options.bulk, raw.run),
            _MEM0: (options.mem0, mem0.run),
        }
        seen: dict[str, list[Measurement]] = {name: [] for name in contenders}
        for turn in range(options.repeats + 1):
            for name, (count, measure) in contenders.items():
                # The first turn only warms up: connections, caches, imports that wait for the first job.
                measurement = measure(count if turn else min(count, 256))
                if turn:
                    seen[name].append(measurement)
                    foreign.append(measurement.foreign)
    return [_figure(name, contenders[name][0], measurements) for name, measurements in seen.items()]


def _figure(name: str, count: int, measurements: Sequence[Measurement]) -> Figure:
    parts: dict[str, float] = {}
    for measurement in measurements:
        for part, seconds in measurement.parts.items():
            parts[part] = parts.get(part, 0.0) + seconds * 1e3 / count / len(measurements)
    return Figure(
        group=_STORES,
        name=name,
        unit="memories/s",
        samples=[count / measurement.wall for measurement in measurements],
        cpu_ms=sum(measurement.cpu for measurement in measurements) * 1e3 / count / len(measurements),
        note=", ".join(f"{part} {ms:.3f}" for part, ms in parts.items() if ms >= 0.005),
    )


def _targets(figures: dict[str, Figure]) -> list[Target]:
    # Turn by turn: what stood side by side in time met the same machine.
    bulk = [max(pair) for pair in zip(figures[_MANY].samples, figures[_IMPORT].samples, strict=True)]
    raw, mem0 = figures[_RAW].samples, figures[_MEM0].samples
    return [
        Target(name="bulk against the raw limit", values=_ratios(bulk, raw), wanted=0.8),
        Target(name="bulk against mem0", values=_ratios(bulk, mem0), wanted=20.0),
        Target(
            name="bulk enqueue against a raw pipeline",
            values=_ratios(figures[OURS].samples, figures[RAW].samples),
            wanted=0.25,
        ),
        Target(name="import memcore.client.client, ms", values=figures[_CLIENT].samples, wanted=300.0, at_most=True),
    ]


def _ratios(these: Sequence[float], those: Sequence[float]) -> list[float]:
    return [this / that for this, that in zip(these, those, strict=True)]


def _spin() -> float:
    begun, total = time.perf_counter(), 0
    for n in range(3_000_000):
        total += n * n
    return (time.perf_counter() - begun) * 1e3


def _machine(foreign: Sequence[float], seconds: float) -> dict[str, Any]:
    return {
        "cores": psutil.cpu_count(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "CPU that others took while we measured": f"{statistics.median(foreign):.0%}, at most {max(foreign):.0%}",
        "the bench took": f"{seconds:.0f} s",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
