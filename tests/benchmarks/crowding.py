"""The delay of one agent's store beside another agent's bulk load: ``python tests/benchmarks/crowding.py [memories]``.

A single store at a time, each for an agent of its own, from the client's call until the store server finds the memory:
first alone, then beside each way of loading twenty thousand.
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from qdrant_client import QdrantClient

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.delay import delay_figure, delay_target, milliseconds_until_found  # noqa: E402  # a script must find the tree first
from benchmarks.figure import Figure, Target  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.stack import BenchStack, open_home  # noqa: E402
from benchmarks.texts import Texts  # noqa: E402

from memcore import MemoryClient  # noqa: E402
from memcore.client.envelopes import ImportRecord  # noqa: E402
from memcore.models.memory import MemoryStoreRequest  # noqa: E402

#: Single stores measured alone.
_ALONE = 60

#: Seconds between two single stores: an engine's pace, and a light load.
_PAUSE_SECONDS = 0.05

_GROUP = "one store, until it is found"

#: Part of the load that is sent one memory at a time, which takes a client thirty times as long.
_LOOP_SHARE = 0.1


class Crowding:
    """Single stores beside a running stack's bulk loads."""

    def __init__(self, stack: BenchStack, client: MemoryClient, qdrant: QdrantClient, texts: Texts) -> None:
        self._stack = stack
        self._client = client
        self._qdrant = qdrant
        self._texts = texts
        self._singles = 0

    def run(self, count: int) -> tuple[list[Figure], list[Target]]:
        """Measure alone and beside each load of that many memories by one agent."""
        alone = [self._single() for _ in range(_ALONE)][_ALONE // 4 :]
        figures, targets = [delay_figure(_GROUP, "alone", alone)], []
        for name, load, size in (
            ("import_many", self._imported, count),
            ("store_many", self._stored, count),
            ("store, over and over, 4 threads", self._looped, int(count * _LOOP_SHARE)),
        ):
            beside, seconds = self._beside(load, self._texts.requests(size, mark=f"crowd {name}"))
            label = f"beside {size:,} by {name}"
            note = f"{len(beside)} single stores in the load's {seconds:.1f} s"
            figures.append(delay_figure(_GROUP, label, beside, note))
            targets.append(delay_target(label, alone, beside))
        return figures, targets

    def _beside(
        self, load: Callable[[Sequence[MemoryStoreRequest]], None], requests: Sequence[MemoryStoreRequest]
    ) -> tuple[list[float], float]:
        before = self._count()
        singles = self._singles
        loader = threading.Thread(target=load, args=(requests,), name="load")
        begun = time.monotonic()
        loader.start()
        beside: list[float] = []
        while loader.is_alive() or self._count() - before - (self._singles - singles) < len(requests):
            beside.append(self._single())
        loader.join()
        return beside, time.monotonic() - begun

    def _single(self) -> float:
        """Store one memory of an agent that nobody knew, and return after how many milliseconds it was found."""
        time.sleep(_PAUSE_SECONDS)
        self._singles += 1
        (request,) = self._texts.requests(1, mark=f"single {self._singles}")
        agent_id = f"single-{self._singles}"
        return milliseconds_until_found(self._client, self._qdrant, self._stack.collection, agent_id, request)

    def _count(self) -> int:
        return int(self._qdrant.count(self._stack.collection, exact=True).count)

    def _imported(self, requests: Sequence[MemoryStoreRequest]) -> None:
        with MemoryClient.from_settings(self._stack.settings) as client:
            client.import_many((ImportRecord(agent_id="loader", **dict(each)) for each in requests), track=False)

    def _stored(self, requests: Sequence[MemoryStoreRequest]) -> None:
        with MemoryClient.from_settings(self._stack.settings) as client:
            client.store_many("loader", requests, track=False)

    def _looped(self, requests: Sequence[MemoryStoreRequest]) -> None:
        with MemoryClient.from_settings(self._stack.settings) as client:

            def work(share: Sequence[MemoryStoreRequest]) -> None:
                for each in share:
                    client.store("loader", each, track=False)

            threads = [threading.Thread(target=work, args=(requests[n::4],)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def main(argv: Sequence[str]) -> int:
    """Measure on a stack of its own, and print."""
    count = int(argv[0]) if argv else 20_000
    with (
        open_home() as stack,
        closing(stack.qdrant()) as qdrant,
        MemoryClient.from_settings(stack.settings) as client,
    ):
        list(client.wait(client.store("first", Texts().requests(1, mark="first")[0]).job_ids, timeout_seconds=60))
        stack.await_count(qdrant, 1)
        show(*Crowding(stack, client, qdrant, Texts()).run(count), {"bulk load": count})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
