"""The cost of a no-op job over memtend's transport, kombu's, dramatiq and taskiq.

``python tests/benchmarks/transport.py [jobs] [turns]`` prints jobs per second and CPU per job. All workers run beside
each other on one broker, each on a database of its own, and are idle but for the one whose turn it is.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from redis import Redis

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks import celery_queue, dramatiq_queue, taskiq_queue  # noqa: E402  # a script must find the tree first
from benchmarks.contender import BenchmarkRound, Command, Contender, running, sent  # noqa: E402
from benchmarks.figure import Figure, Target  # noqa: E402
from benchmarks.meter import measured  # noqa: E402
from benchmarks.report import show  # noqa: E402
from support.valkey_servers import BrokerAddress, valkey_server  # noqa: E402

from workers.transport import reliable_url  # noqa: E402

_TWICE = "memtend, threads, two workers"

#: Ours that are held against taskiq, and with how many of its processes: as many as run jobs. A prefork parent, which
#: serves two, is a third.
_BESIDE_TASKIQ = {"memtend, solo": 1, "memtend, threads": 1, _TWICE: 2, "memtend, prefork": 2}


@dataclass(kw_only=True)
class TurnSamples:
    """The samples of one contender: jobs per second, CPU ms per job, the broker's CPU ms and commands per job."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    broker_cpu: list[float] = field(default_factory=list)
    commands: list[float] = field(default_factory=list)


def transports(jobs: int, turns: int) -> tuple[list[Figure], list[Target]]:
    """Let the contenders take turns."""
    with _started(jobs) as (broker, benchmark_rounds):
        seen = {benchmark_round.name: TurnSamples() for benchmark_round in benchmark_rounds}
        for _ in range(turns):
            for benchmark_round in benchmark_rounds:
                _take_turn(benchmark_round, broker, jobs, seen[benchmark_round.name])
    return [_figure(name, given) for name, given in seen.items()], list(_targets(seen))


@contextmanager
def _started(jobs: int) -> Iterator[tuple[BrokerAddress, list[BenchmarkRound]]]:
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="memtend-bench-"))
        # Once a second, valkey's own default: were every command synced, the disk alone would decide, and the
        # contender with most commands would look slowest.
        broker = opened.enter_context(valkey_server(Path(folder), appendfsync="everysec"))
        benchmark_rounds: list[BenchmarkRound] = []
        fillings: dict[object, list[Command]] = {}
        for database, contender in enumerate(_contenders(broker)):
            redis = opened.enter_context(Redis(port=broker.port, password=broker.password, db=database))
            if contender.send not in fillings:
                fillings[contender.send] = sent(contender, redis, jobs)
            benchmark_rounds.append(opened.enter_context(running(contender, redis, jobs, fillings[contender.send])))
        yield broker, benchmark_rounds


def _contenders(broker: BrokerAddress) -> Iterator[Contender]:
    urls = (f"{broker.url.removesuffix('/0')}/{database}" for database in range(16))
    for pool in celery_queue.POOLS:
        yield _celery(_stock(pool), next(urls), pool)
        yield _celery(_ours(pool), reliable_url(next(urls)), pool)
    yield _celery(_TWICE, reliable_url(next(urls)), "threads", copies=2)
    for name, peer in (("taskiq", taskiq_queue), ("dramatiq", dramatiq_queue)):
        for processes in (1, 2):
            yield Contender(
                name=_peer(name, processes),
                url=next(urls),
                send=peer.send,
                counts=peer.COUNTS,
                command=peer.command(processes),
            )


def _celery(name: str, url: str, pool: str, *, copies: int = 1) -> Contender:
    return Contender(
        name=name,
        url=url,
        send=celery_queue.send,
        counts=celery_queue.COUNTS,
        command=celery_queue.command(url, pool),
        copies=copies,
    )


def _take_turn(benchmark_round: BenchmarkRound, broker: BrokerAddress, jobs: int, seen: TurnSamples) -> None:
    assert broker.process is not None
    server = broker.process.pid
    with broker.client() as client, measured(lambda: {**benchmark_round.pids, "broker": server}) as measurement:
        benchmark_round.refill()
        before = _commands(client)
        benchmark_round.wait_for_start()
        begun = perf_counter()
        benchmark_round.wait_for_end()
        seconds = perf_counter() - begun
        sent = _commands(client) - before
    seen.rates.append(jobs / seconds)
    seen.cpu.append(sum(measurement.parts[worker] for worker in benchmark_round.pids) * 1e3 / jobs)
    seen.broker_cpu.append(measurement.parts["broker"] * 1e3 / jobs)
    seen.commands.append(sent / jobs)


def _commands(client: Redis) -> int:
    return int(client.info("stats")["total_commands_processed"])


def _figure(name: str, seen: TurnSamples) -> Figure:
    broker_cpu, commands = sum(seen.broker_cpu) / len(seen.broker_cpu), sum(seen.commands) / len(seen.commands)
    return Figure(
        group="no-op jobs of a full queue, acknowledged late",
        name=name,
        unit="jobs/s",
        samples=seen.rates,
        cpu_ms=sum(seen.cpu) / len(seen.cpu),
        note=f"of the worker; of the broker {broker_cpu:.3f}, {commands:.1f} commands",
    )


def _targets(seen: dict[str, TurnSamples]) -> Iterator[Target]:
    for pool in celery_queue.POOLS:
        ours, stock = seen[_ours(pool)], seen[_stock(pool)]
        yield Target(
            name=f"{_ours(pool)}: CPU per no-op to that of Celery",
            values=_ratios(ours.cpu, stock.cpu),
            wanted=0.5,
            at_most=True,
        )
    for name, processes in _BESIDE_TASKIQ.items():
        ours, taskiq = seen[name], seen[_peer("taskiq", processes)]
        yield Target(
            name=f"{name}: CPU per no-op to that of taskiq on {processes}",
            values=_ratios(ours.cpu, taskiq.cpu),
            wanted=1.0,
            at_most=True,
        )
        yield Target(
            name=f"{name}: no-ops/s to those of taskiq on {processes}",
            values=_ratios(ours.rates, taskiq.rates),
            wanted=1.0,
        )


def _ratios(these: Sequence[float], those: Sequence[float]) -> list[float]:
    return [this / that for this, that in zip(these, those, strict=True)]


def _ours(pool: str) -> str:
    return f"memtend, {pool}"


def _stock(pool: str) -> str:
    return f"Celery, {pool}"


def _peer(name: str, processes: int) -> str:
    return f"{name}, processes: {processes}"


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    jobs, turns = (int(text) for text in (*argv, *("2000", "3")[len(argv) :]))
    begun = perf_counter()
    figures, targets = transports(jobs, turns)
    show(figures, targets, {"jobs": jobs, "turns": turns, "seconds": f"{perf_counter() - begun:.0f}"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
