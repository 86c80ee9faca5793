"""Resident memory of each part of the stack: RSS counts shared pages in every process, PSS shares them out."""

import psutil
from benchmarks.figure import Figure
from benchmarks.meter import family
from benchmarks.stack import BenchStack


def residence(stack: BenchStack) -> list[Figure]:
    """Return the memory of every part and its children now, and of all together."""
    figures, total_rss, total_pss = [], 0.0, 0.0
    for name, pid in stack.pids().items():
        seen = [_sizes(member) for member in family(pid)]
        rss, pss = sum(size[0] for size in seen), sum(size[1] for size in seen)
        total_rss, total_pss = total_rss + rss, total_pss + pss
        each = " + ".join(f"{size[1]:.0f}" for size in seen)
        note = f"RSS {rss:.0f} MiB" + (f"; {len(seen)} processes: {each}" if len(seen) > 1 else "")
        figures.append(Figure(group="memory", name=name, unit="MiB PSS", samples=[pss], note=note))
    note = f"RSS {total_rss:.0f} MiB"
    figures.append(Figure(group="memory", name="the whole stack", unit="MiB PSS", samples=[total_pss], note=note))
    return figures


def _sizes(member: psutil.Process) -> tuple[float, float]:
    info = member.memory_full_info()
    # Only Linux tells PSS; elsewhere what is the process's own comes nearest.
    return info.rss / 2**20, getattr(info, "pss", info.uss) / 2**20
