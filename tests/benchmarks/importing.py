"""The cost of ``import memcore.client.client``: milliseconds and modules, in a fresh process."""

import json
import subprocess
import sys

from benchmarks.figure import Figure

_PROGRAM = """
import sys, time
before, cpu, wall = set(sys.modules), time.process_time(), time.perf_counter()
import memcore.client.client
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
import json
print(json.dumps([wall * 1e3, cpu * 1e3, len(set(sys.modules) - before)]))
"""


def imports(repeats: int) -> list[Figure]:
    """Import it in that many processes, one after the other, after one that fills the caches."""
    seen = [json.loads(subprocess.check_output([sys.executable, "-c", _PROGRAM])) for _ in range(repeats + 1)][1:]
    walls, cpus, modules = (list(column) for column in zip(*seen, strict=True))
    cpu = sorted(cpus)[len(cpus) // 2]
    return [
        Figure(group="import", name="import memcore.client.client", unit="ms", samples=walls, cpu_ms=cpu),
        Figure(group="import", name="modules it loads", unit="modules", samples=modules),
    ]
