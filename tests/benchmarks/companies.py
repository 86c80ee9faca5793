"""The delay of 199 companies' stores beside one company's load: ``companies.py [jobs] [others]``.

Each of the others stores one memory, from the client's call until the store server finds it: first alone, then while
one company's jobs are sent and wait in the queues. One fleet of workers serves all of them.
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

#: Threads that send the load.
_THREADS = 2

#: Store jobs that wait when the others begin, as a share of the load.
_QUEUED_SHARE = 0.2


def companies(jobs: int, others: int = OTHERS) -> tuple[list[Figure], list[Target]]:
    """Measure on a stack of its own."""
    with open_home() as stack, closing(stack.qdrant()) as qdrant:
        names = [f"company-{number:03}" for number in range(others)]
        with closing(Ledger.open(stack.settings.ledger_urls)) as ledger:
            for name in names:
                ledger.companies.register(name)
        _turn(stack, qdrant, names, "first")  # makes their collections
        alone = _turn(stack, qdrant, names, "alone")
        load = threading.Thread(target=_load, args=(stack, jobs), name="load")
        load.start()
        while sum(each or 0 for each in waiting(stack.settings).values()) < jobs * _QUEUED_SHARE and load.is_alive():
            time.sleep(POLL_INTERVAL_SECONDS)
        beside = _turn(stack, qdrant, names, "beside")
        queued = sum(each or 0 for each in waiting(stack.settings).values())
        load.join()
    group, label = f"a store of {others} companies", f"beside {jobs:,} jobs of one company"
    note = f"{queued:,} jobs still waited at the end"
    figures = [delay_figure(group, "alone", alone), delay_figure(group, label, beside, note)]
    return figures, [delay_target(label, alone, beside)]


def _turn(stack: BenchStack, qdrant: QdrantClient, names: Sequence[str], mark: str) -> list[float]:
    """Store one memory of each company, one after another; return the milliseconds until each was found."""
    taken = []
    for name, request in zip(names, Texts().requests(len(names), mark=mark), strict=True):
        with MemoryClient.from_settings(stack.settings.model_copy(update={"company": name})) as client:
            taken.append(milliseconds_until_found(client, qdrant, f"memtend_{name}", "single", request))
    return taken


def _load(stack: BenchStack, jobs: int) -> None:
    requests = list(Texts().requests(jobs, mark="load"))
    with MemoryClient.from_settings(stack.settings) as client:

        def work(first: int) -> None:
            for number in range(first, jobs, _THREADS):
                client.store(f"agent-{number % _AGENTS}", requests[number], track=False)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    jobs, others = (int(text) for text in (*argv, *("50000", str(OTHERS))[len(argv) :]))
    show(*companies(jobs, others), {"jobs of one company": jobs})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
