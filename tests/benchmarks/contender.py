"""A contender of the queue bench: workers on their own broker database, with the same jobs each turn."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from redis import Redis

#: A command of the broker and its arguments.
Command = tuple[bytes, ...]

#: The variable that names the broker for a peer's worker, which its own command line starts.
BROKER = "MEMTEND_BENCH_BROKER"

#: Seconds that a worker may take for anything; a machine that is busy with others starts ten of them slowly.
PATIENCE = 120

#: Jobs that each worker does before the first turn.
WARM_UP = 100

_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One contender.

    Attributes:
        name: in the report.
        url: the broker as this one's worker and client write it, with the number of its own database.
        send: sends so many jobs, by the contender's own client.
        counts: a script that says how many jobs wait, and how many are taken and not acknowledged.
        command: starts the worker.
        copies: workers that share the jobs.
    """

    name: str
    url: str
    send: Callable[[str, int], None]
    counts: str
    command: tuple[str, ...]
    copies: int = 1


class BenchmarkRound:
    """A contender whose worker runs, and the jobs that it gets in every turn."""

    def __init__(self, contender: Contender, redis: Redis, jobs: int, filling: Sequence[Command]) -> None:
        self.name = contender.name
        self._redis = redis
        self._counts = contender.counts
        self._jobs = jobs
        self._filling = filling
        environment = {**os.environ, "PYTHONPATH": str(_TESTS), BROKER: contender.url}
        self._processes = [
            subprocess.Popen(contender.command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(contender.copies)
        ]

    @property
    def pids(self) -> dict[str, int]:
        return {f"worker {number}": process.pid for number, process in enumerate(self._processes)}

    def refill(self) -> None:
        """Put all jobs into the queue in one transaction: whoever waits finds it full."""
        with self._redis.pipeline(transaction=True) as pipeline:
            for command in self._filling:
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]  # redis types few of its commands
            pipeline.execute()

    def wait_for_start(self) -> None:
        """Wait until the worker took a job: one that sleeps must notice first, which costs time and no work."""
        self._wait(lambda waiting, _held: waiting < self._jobs)

    def wait_for_end(self) -> None:
        """Wait until every job is acknowledged."""
        self._wait(lambda waiting, held: not waiting and not held)

    def _wait(self, reached: Callable[[int, int], bool]) -> None:
        until = monotonic() + PATIENCE
        while all(process.poll() is None for process in self._processes) and monotonic() < until:
            if reached(*self._redis.eval(self._counts, 0)):
                return
            sleep(0.005)
        raise ChildProcessError(f"{self.name}: a worker has ended, or is stuck")

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@contextmanager
def running(contender: Contender, redis: Redis, jobs: int, filling: Sequence[Command]) -> Iterator[BenchmarkRound]:
    """Start the workers and let them do a few jobs: their imports and connections are then made."""
    contender.send(contender.url, WARM_UP)
    benchmark_round = BenchmarkRound(contender, redis, jobs, filling)
    try:
        benchmark_round.wait_for_end()
        yield benchmark_round
    finally:
        benchmark_round.stop()


def sent(contender: Contender, redis: Redis, jobs: int) -> list[Command]:
    """Send the jobs by the contender's client, and return the commands that put the same into an empty database."""
    contender.send(contender.url, jobs)
    commands: list[Command] = []
    answers: Any = redis  # its types allow for decoded answers, which this client does not give
    for key in answers.scan_iter():
        kind = answers.type(key)
        if kind == b"list":
            commands += [(b"RPUSH", key, item) for item in answers.lrange(key, 0, -1)]
        elif kind == b"hash":
            commands += [(b"HSET", key, *pair) for pair in answers.hgetall(key).items()]
        elif kind == b"stream":
            commands += [(b"XADD", key, b"*", *chain(*fields.items())) for _id, fields in answers.xrange(key)]
    redis.flushdb()
    return commands
