"""``python tests/benchmarks/engines.py``: the memory of one ``serve`` with 200 connected engines, and of a thin engine.

Each engine is a RemoteMemory with connections of its own; four processes hold fifty of them each. All connect, all
search and store at once, and stay connected while the server's memory is read.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.meter import family  # noqa: E402
from support.running_stack import StackAddress, clean_environ, running_stack  # noqa: E402

from memcore import Memory  # noqa: E402
from memcore.ledger.access.keys import Verb  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402

#: Engines that are connected at once, and the processes that hold them.
ENGINES, PROCESSES = 200, 4

#: Searches of each engine while all others search, too.
SEARCHES = 10

#: Most memory of one serve with all engines connected, in MiB.
MOST_MIB = 300.0

#: Where a process of engines finds its key: arguments are seen by everybody on the machine.
_KEY = "MEMTEND_BENCH_KEY"

#: What a thin engine loads and does; it prints its resident memory before and after, in MiB, and its modules.
_THIN = """
import json, os, resource, sys
def mib():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize() / 2**20
bare, modules = mib(), len(sys.modules)
from memcore import Memory
memory = Memory.connect(sys.argv[1], key=os.environ["MEMTEND_BENCH_KEY"])
loaded = mib()
memory.search("engine-0", "what pages?")
print(json.dumps([bare, loaded, mib(), len(sys.modules) - modules]))
"""


def engines(stack: StackAddress) -> tuple[list[Figure], list[Target]]:
    """Return the memory of serve alone and with all engines, their searches, and the memory of a thin engine."""
    pid = stack.pid("serve")
    assert pid is not None
    doors = json.loads((stack.home / "run" / "doors.json").read_text())
    url, environ = f"http://127.0.0.1:{doors['serve_port']}", {**clean_environ(), _KEY: _key(stack)}
    with Memory.connect(url, key=environ[_KEY]) as memory:
        memory.store_many("engine-0", [f"Payments page at {number} messages." for number in range(100)], wait=True)
        memory.search("engine-0", "when does payments page?")
    one = _pss(pid)
    share = ENGINES // PROCESSES
    argv = [sys.executable, __file__, "--engines", str(share), url]
    with ExitStack() as ending:
        held = [
            ending.enter_context(
                subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
            )
            for _ in range(PROCESSES)
        ]
        for process in held:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
        connected, connections = _pss(pid), _connections(pid)
        for process in held:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        took: list[float] = []
        for process in held:
            assert process.stdout is not None
            took += json.loads(process.stdout.readline())
        busy = _pss(pid)
        for process in held:
            process.communicate("")
    bare, loaded, used, modules = json.loads(
        subprocess.check_output([sys.executable, "-c", _THIN, url], env=environ, text=True, cwd=ROOT)
    )
    took.sort()
    figures = [
        Figure(group="engines", name="serve, one engine", unit="MiB PSS", samples=[one]),
        Figure(
            group="engines",
            name=f"serve, {ENGINES} engines connected",
            unit="MiB PSS",
            samples=[connected],
            note=f"{connections} connections",
        ),
        Figure(group="engines", name=f"serve, after {len(took)} searches of all", unit="MiB PSS", samples=[busy]),
        Figure(
            group="engines",
            name=f"a search while {ENGINES} engines search",
            unit="ms",
            samples=[statistics.median(took)],
            note=f"p99 {took[int(len(took) * 0.99)]:.0f} ms",
        ),
        Figure(
            group="engines",
            name="a thin engine",
            unit="MiB RSS",
            samples=[used],
            note=f"Python alone {bare:.0f}; {loaded - bare:.1f} more once imported; {modules:.0f} modules",
        ),
    ]
    wanted = Target(name=f"MiB of serve with {ENGINES} engines", values=[busy], wanted=MOST_MIB, at_most=True)
    return figures, [wanted]


def _key(stack: StackAddress) -> str:
    with closing(Ledger.open(stack.settings.ledger_urls)) as ledger:
        made = ledger.api_keys.create(stack.settings.company, name="bench", verbs=[Verb.READ, Verb.WRITE], agents=None)
    return made.token


def _pss(pid: int) -> float:
    sizes = [each.memory_full_info() for each in family(pid)]
    return sum(getattr(size, "pss", size.uss) for size in sizes) / 2**20


def _connections(pid: int) -> int:
    return sum(each.status == psutil.CONN_ESTABLISHED for each in psutil.Process(pid).net_connections("tcp"))


def hold(url: str, count: int) -> None:
    """Hold engines: connect, search and store when a line comes, and end with the input."""
    engines = [Memory.connect(url, key=os.environ[_KEY], timeout_seconds=60) for _ in range(count)]
    took: list[float] = []

    def each(work: str) -> None:
        threads = [threading.Thread(target=run, args=(place, work)) for place in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def run(place: int, work: str) -> None:
        engine, agent = engines[place], f"engine-{place % 10}"
        if work == "connect":
            engine.search(agent, "payments", limit=1)
            return
        engine.store(agent, f"Engine {os.getpid()}-{place} was here.")
        for _ in range(SEARCHES):
            begun = time.perf_counter()
            engine.search(agent, "when does payments page?", limit=5)
            took.append((time.perf_counter() - begun) * 1_000)

    each("connect")
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    sys.stdin.readline()
    each("work")
    sys.stdout.write(json.dumps(took) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    for engine in engines:
        engine.close()


def main(argv: Sequence[str]) -> int:
    """Measure on a stack of its own and print; return 0 when the target is met."""
    if argv[:1] == ["--engines"]:
        hold(argv[2], int(argv[1]))
        return 0
    with TemporaryDirectory(prefix="memtend-engines-") as folder, running_stack(Path(folder) / "home") as stack:
        figures, targets = engines(stack)
    for figure in figures:
        sys.stdout.write(f"{figure.name:<44} {figure.median:8.1f} {figure.unit:<8} {figure.note}\n")
    for target in targets:
        word = "met" if target.is_met else "MISSED"
        sys.stdout.write(f"{target.name:<44} {target.value:8.1f}, at most {target.wanted:g}: {word}\n")
    return 0 if all(target.is_met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
