"""``python tests/benchmarks/idle_stack.py``: what ``memtend up`` costs while nothing is asked of it.

Starts a stack on a temporary folder, waits until it is up, leaves it alone for a minute, and prints each part's memory
and CPU. Memory is PSS: a page that several processes share is counted once. Linux only.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import psutil  # noqa: E402  # a script must find the tree first
from benchmarks.figure import Target  # noqa: E402
from support.running_stack import StackAddress, running_stack  # noqa: E402

#: The most that an idle stack may take (issue 19): MiB of PSS, percent of one core, seconds until it is up.
MOST_MIB, MOST_CORE_PERCENT, MOST_SECONDS = 450.0, 1.0, 5.0

#: Seconds between two samples of the memory while the stack starts; a sample takes a few milliseconds a process.
_SAMPLE_SECONDS = 0.25

#: Seconds that the stack gets after it is up, for what it does at every start: the first tick, canary and expiry.
SETTLE_SECONDS = 20.0

#: What holds neither a part nor one of its children: the supervisor, and what it keeps beside the parts.
SUPERVISOR = "supervisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one part and its children hold and have used."""

    processes: int
    pss_mib: float
    own_mib: float
    cpu_seconds: float


class PeakSampler(threading.Thread):
    """Samples the memory of every process below this one until it is told to end."""

    def __init__(self) -> None:
        super().__init__(name="peak", daemon=True)
        self.peak_mib = 0.0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            now = sum(_rollup(each.pid)[0] for each in psutil.Process().children(recursive=True))
            self.peak_mib = max(self.peak_mib, now)

    def end(self) -> None:
        self._ended.set()
        self.join()


def _rollup(pid: int) -> tuple[float, float]:
    """Return a process's PSS and what is its own alone, in MiB; zeros for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return 0.0, 0.0
    kib = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
    return kib.get("Pss", 0) / 1024, (kib.get("Private_Clean", 0) + kib.get("Private_Dirty", 0)) / 1024


def usage_by_part(stack: StackAddress) -> dict[str, Usage]:
    """Return what each part uses now; its processes are those of its session."""
    names = {part.pid: part.name for part in stack.state.parts}
    totals: dict[str, list[float]] = {}
    for process in stack.family():
        try:
            name = names.get(os.getsid(process.pid), SUPERVISOR)
            times = process.cpu_times()
        except (psutil.Error, ProcessLookupError):
            continue
        pss, own = _rollup(process.pid)
        # Of children that have ended and were waited for, too.
        cpu = times.user + times.system + times.children_user + times.children_system
        seen = totals.setdefault(name, [0, 0.0, 0.0, 0.0])
        for index, value in enumerate((1, pss, own, cpu)):
            seen[index] += value
    return {
        name: Usage(processes=int(seen[0]), pss_mib=seen[1], own_mib=seen[2], cpu_seconds=seen[3])
        for name, seen in totals.items()
    }


def measure(home: Path, *, idle_seconds: float) -> list[Target]:
    """Start a stack, let it idle, print the table; return the targets beside what was measured."""
    sampler = PeakSampler()
    sampler.start()
    begun = time.monotonic()
    with running_stack(home) as stack:
        up_seconds = time.monotonic() - begun
        start_cpu = sum(each.cpu_seconds for each in usage_by_part(stack).values())
        time.sleep(SETTLE_SECONDS)
        sampler.end()
        before, since = usage_by_part(stack), time.monotonic()
        time.sleep(idle_seconds)
        after, lasted = usage_by_part(stack), time.monotonic() - since
        restarts = Counter({part.name: part.restarts for part in stack.state.parts})
    percent = {name: 100 * _spent(before.get(name), now) / lasted for name, now in after.items()}
    sys.stdout.write(f"{'part':<16}{'processes':>10}{'PSS MiB':>10}{'own MiB':>10}{'% core':>8}{'restarts':>10}\n")
    for name, now in sorted(after.items(), key=lambda item: -item[1].pss_mib):
        shown = f"{now.processes:>10}{now.pss_mib:>10.1f}{now.own_mib:>10.1f}{percent[name]:>8.2f}{restarts[name]:>10}"
        sys.stdout.write(f"{name:<16}{shown}\n")
    total = sum(now.pss_mib for now in after.values())
    # Beside other work it says more than the seconds on the clock.
    sys.stdout.write(f"\nCPU until it was up: {start_cpu:.1f} s\n")
    sys.stdout.write(f"peak until {SETTLE_SECONDS:g} s after the start: {sampler.peak_mib:.0f} MiB PSS\n")
    return [
        Target(name="idle memory, MiB PSS", values=[total], wanted=MOST_MIB, at_most=True),
        Target(name="idle CPU, % of a core", values=[sum(percent.values())], wanted=MOST_CORE_PERCENT, at_most=True),
        Target(name="seconds until it is up", values=[up_seconds], wanted=MOST_SECONDS, at_most=True),
    ]


def _spent(before: Usage | None, now: Usage) -> float:
    return now.cpu_seconds - (before.cpu_seconds if before else 0.0)


def main() -> int:
    """Measure one idle stack; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure an idle embedded stack.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is left alone")
    options = parser.parse_args()
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    with tempfile.TemporaryDirectory(prefix="memtend-idle-") as folder:
        targets = measure(Path(folder) / "home", idle_seconds=options.seconds)
    for target in targets:
        word = "met" if target.is_met else "MISSED"
        sys.stdout.write(f"{target.name:<28}{target.value:>8.2f}, at most {target.wanted:g}: {word}\n")
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")
    return 0 if all(target.is_met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
