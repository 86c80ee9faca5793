"""The delay of 199 companies' stores beside one company's load: ``companies.py [jobs] [others] [seconds]``.

Each of the others stores one memory, from the client's call until the store server finds it: first alone, then while
one company's jobs are sent and wait in the queues. One fleet of workers serves all of them. After so many seconds it
stops, and prints what it has seen by then.
"""

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from qdrant_client import QdrantClient

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.delay import (  # noqa: E402  # a script must find the tree first
    POLL_INTERVAL_SECONDS,
    delay_figure,
    delay_target,
    milliseconds_until_found,
)
from benchmarks.figure import Figure, Target  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.stack import BenchStack, open_home  # noqa: E402
from benchmarks.texts import Texts  # noqa: E402

from memcore import MemoryClient  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from workers.broker import waiting  # noqa: E402

#: Companies beside the one that loads.
OTHERS = 199

#: Agents of the company that loads: so many that no agent's own allowance holds it back.
_AGENTS = 2_000

#: After so many stores the figures so far are printed.
_REPORTED_EVERY = 50

#: Threads that send the load.
_THREADS = 2

#: Seconds after which no more is stored or sent.
_LIMIT_SECONDS = 1_200

#: Store jobs that wait when the others begin, as a share of the load.
_QUEUED_SHARE = 0.2


def companies(jobs: int, others: int = OTHERS, *, seconds: float = _LIMIT_SECONDS) -> tuple[list[Figure], list[Target]]:
    """Measure on a stack of its own."""
    over = threading.Event()
    timer = threading.Timer(seconds, over.set)
    timer.start()
    try:
        with open_home() as stack, closing(stack.qdrant()) as qdrant:
            return _measure(stack, qdrant, jobs, [f"company-{number:03}" for number in range(others)], over)
    finally:
        timer.cancel()


def _measure(
    stack: BenchStack, qdrant: QdrantClient, jobs: int, names: Sequence[str], over: threading.Event
) -> tuple[list[Figure], list[Target]]:
    with closing(Ledger.open(stack.settings.ledger_urls)) as ledger:
        for name in names:
            ledger.companies.register(name)
    _turn(stack, qdrant, names, "first", over)  # makes their collections
    alone = _turn(stack, qdrant, names, "alone", over)
    load = threading.Thread(target=_load, args=(stack, jobs, over), name="load")
    load.start()
    while _queued(stack) < jobs * _QUEUED_SHARE and load.is_alive():
        time.sleep(POLL_INTERVAL_SECONDS)
    beside = _turn(stack, qdrant, names, "beside", over)
    queued = _queued(stack)
    over.set()  # the rest of the load would be sent for nothing
    load.join()
    group, label = f"a store of {len(names)} companies", f"beside {jobs:,} jobs of one company"
    note = f"{queued:,} jobs still waited at the end"
    rows = [("alone", alone, f"of {len(alone)}"), (label, beside, f"of {len(beside)}; {note}")]
    return [delay_figure(group, *row) for row in rows], [delay_target(label, alone, beside)]


def _queued(stack: BenchStack) -> int:
    return sum(each or 0 for each in waiting(stack.settings).values())


def _turn(
    stack: BenchStack, qdrant: QdrantClient, names: Sequence[str], mark: str, over: threading.Event
) -> list[float]:
    """Store one memory of each company, one after another, until it is over; return each one's milliseconds."""
    taken = list[float]()
    for name, request in zip(names, Texts().requests(len(names), mark=mark), strict=True):
        with MemoryClient.from_settings(stack.settings.model_copy(update={"company": name})) as client:
            taken.append(milliseconds_until_found(client, qdrant, f"memtend_{name}", "single", request))
        if len(taken) % _REPORTED_EVERY == 0 or len(taken) == len(names) or over.is_set():
            row = delay_figure("", mark, taken)
            sys.stderr.write(f"{mark}: {len(taken)} of {len(names)}, median {row.median:.0f} ms, {row.note}\n")
        if over.is_set():
            break
    return taken


def _load(stack: BenchStack, jobs: int, over: threading.Event) -> None:
    requests = list(Texts().requests(jobs, mark="load"))
    with MemoryClient.from_settings(stack.settings) as client:

        def work(first: int) -> None:
            for number in range(first, jobs, _THREADS):
                if over.is_set():
                    return
                client.store(f"agent-{number % _AGENTS}", requests[number], track=False)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    defaults = ("50000", str(OTHERS), str(_LIMIT_SECONDS))
    jobs, others, seconds = (int(text) for text in (*argv, *defaults[len(argv) :]))
    show(*companies(jobs, others, seconds=seconds), {"jobs of one company": jobs})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
