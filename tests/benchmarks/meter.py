"""Measuring a stretch of work: wall time, and the CPU time of every process that shared in it."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil


@dataclass(kw_only=True)
class Measurement:
    """What one stretch of work took.

    Attributes:
        wall: seconds on the clock.
        cpu: seconds of CPU of all watched processes together.
        parts: the same for each of them by name.
        foreign: share of the machine's CPU, 0 to 1, that other processes used meanwhile.
    """

    wall: float = 0.0
    cpu: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    foreign: float = 0.0


@contextmanager
def measured(pids: Callable[[], Mapping[str, int]]) -> Iterator[Measurement]:
    """Fill the stretch that is handed out when the context ends; this process is always watched, as "this"."""
    watched = {"this": os.getpid(), **pids()}
    measurement = Measurement()
    before, busy, begun = _cpu(watched), _busy(), time.perf_counter()
    yield measurement
    measurement.wall = time.perf_counter() - begun
    after = _cpu(watched)
    measurement.parts = {name: after[name] - before[name] for name in watched}
    measurement.cpu = sum(measurement.parts.values())
    machine = measurement.wall * (psutil.cpu_count() or 1)
    measurement.foreign = max(0.0, (_busy() - busy - measurement.cpu) / machine)


def family(pid: int) -> Iterable[psutil.Process]:
    """Return a process and its children; none when it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _cpu(watched: Mapping[str, int]) -> dict[str, float]:
    taken = {}
    for name, pid in watched.items():
        # The stack's parts are our children: each is counted under its own name.
        members = [psutil.Process(pid)] if pid == os.getpid() else family(pid)
        taken[name] = sum(times.user + times.system for times in (member.cpu_times() for member in members))
    return taken


def _busy() -> float:
    times = psutil.cpu_times()
    return times.user + times.system + times.nice + getattr(times, "steal", 0.0)
