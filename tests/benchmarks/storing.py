"""Stores through the queue: from the client's call until everything is durable and can be found."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.meter import Measurement, measured
from benchmarks.stack import BenchStack
from benchmarks.texts import Texts, by_agent
from qdrant_client import QdrantClient

from memcore import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.models.memory import MemoryStoreRequest


class Storing:
    """Stores through a running stack; each call is one measurement over fresh memories."""

    def __init__(self, stack: BenchStack, client: MemoryClient, qdrant: QdrantClient, texts: Texts) -> None:
        self._stack = stack
        self._client = client
        self._qdrant = qdrant
        self._texts = texts
        self._stored = 0
        self._turn = 0

    def one_at_a_time(self, count: int, *, threads: int) -> Measurement:
        """Call ``store`` once for each memory, from that many threads."""
        memories = self._fresh(count)
        parts = [memories[n::threads] for n in range(threads)]

        def send() -> None:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(self._store_each, parts))

        return self._until_found(send, count)

    def many(self, count: int) -> Measurement:
        """Call ``store_many`` once for each agent."""
        memories = list(by_agent(self._fresh(count)))

        def send() -> None:
            for agent_id, requests in memories:
                self._client.store_many(agent_id, requests)

        return self._until_found(send, count)

    def imported(self, count: int) -> Measurement:
        """Call ``import_many`` once for all."""
        records = [
            ImportRecord(agent_id=agent_id, **dict(request))
            for agent_id, requests in by_agent(self._fresh(count))
            for request in requests
        ]
        return self._until_found(lambda: self._client.import_many(records), count)

    def _store_each(self, memories: Sequence[MemoryStoreRequest]) -> None:
        for memory in memories:
            self._client.store("agent-0", memory)

    def _until_found(self, send: Callable[[], object], count: int) -> Measurement:
        self._stored += count
        with measured(self._stack.pids) as measurement:
            send()
            self._stack.await_count(self._qdrant, self._stored)
        return measurement

    def _fresh(self, count: int) -> list[MemoryStoreRequest]:
        self._turn += 1
        return self._texts.requests(count, mark=f"turn {self._turn}")
