"""Another embedder while agents go on reading and writing, and the worker dies half-way."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from commands import CommandLine
from stacks import StackAddress, running_stack, wait_until

from memcore.backends.factory import create_worker_backend
from memcore.client import MemoryClient
from memcore.client.envelope import ImportRecord
from memcore.client.receipts import JobState
from memcore.config.policy import Policy
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.ledger import Ledger
from memcore.models import MemoryCategory, MemoryQuery, MemoryStoreRequest

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1200)]

#: Memories that are there before: with the embedder of the test some seconds of work.
MEMORIES = 800

#: Whose they are.
AGENTS = ("alice", "bob", "carol", "dave")


@dataclass
class Load:
    """What agents did all the while, and what became of it."""

    stored: dict[str, list[str]] = field(default_factory=dict)
    reads: int = 0
    failed: list[str] = field(default_factory=list)
    spaces: set[str | None] = field(default_factory=set)


def _request(content: str) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=content)


def _write(stack: StackAddress, load: Load, stop: threading.Event) -> None:
    number = 0
    with MemoryClient.from_settings(stack.settings) as client:
        while not stop.wait(0.1):
            agent = AGENTS[number % len(AGENTS)]
            number += 1
            try:
                receipt = client.store(agent, _request(f"Gate {number} of the canal was opened by {agent}."))
            except MemoryError as error:
                load.failed.append(f"write: {error}")
            else:
                load.stored.setdefault(agent, []).extend(receipt.memory_ids)


def _read(stack: StackAddress, load: Load, stop: threading.Event) -> None:
    async def read() -> None:
        backend = create_worker_backend(stack.settings, Policy())
        await backend.connect()
        while not stop.is_set():
            for agent in AGENTS:
                try:
                    found = await backend.retrieve(agent, MemoryQuery(text="Which pump was repaired?", limit=5))
                except MemoryError as error:
                    load.failed.append(f"read: {error}")
                else:
                    load.reads += 1
                    load.spaces.add(backend.vector_space)
                    if len(found) != 5:
                        load.failed.append(f"read: {len(found)} found")
            await asyncio.sleep(0.05)
        await backend.disconnect()

    asyncio.run(read())


@contextmanager
def constant_load(stack: StackAddress) -> Generator[Load]:
    """Read and write for as long as the context is open."""
    load, stop = Load(), threading.Event()
    threads = [threading.Thread(target=act, args=(stack, load, stop)) for act in (_write, _read)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _filled(stack: StackAddress) -> None:
    with MemoryClient.from_settings(stack.settings) as client:
        receipt = client.import_many(
            ImportRecord(
                agent_id=AGENTS[n % len(AGENTS)],
                category=MemoryCategory.SEMANTIC,
                content=f"Pump {n} was repaired on the {n % 28}th.",
            )
            for n in range(MEMORIES)
        )
        assert all(job.state is JobState.DONE for job in client.wait(receipt.job_ids, timeout_seconds=300))


def _kill_night(stack: StackAddress) -> None:
    pid = stack.pid("worker-night")
    assert pid is not None
    parent = psutil.Process(pid)
    for process in [parent, *parent.children(recursive=True)]:
        process.kill()


def test_a_reindex_under_load_loses_nothing_and_outlives_its_worker(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running_stack(home) as stack:
        memtend = CommandLine(home=home)
        _filled(stack)
        ledger = Ledger.open(stack.settings.ledger_urls)

        def fraction() -> float:
            reindex = ledger.reindexes.get("default")
            return 0.0 if reindex is None else reindex.fraction

        with constant_load(stack) as load:
            with pytest.MonkeyPatch.context() as environ:
                environ.setenv("MEMTEND_EMBEDDER", "minilm")
                memtend.ok("reindex", "--no-wait")
            wait_until(lambda: fraction() >= 0.4, seconds=400, what="half of the reindex")
            _kill_night(stack)
            assert fraction() < 0.9
            wait_until(lambda: fraction() == 1.0, seconds=600, what="the reindex")
            seen = load.reads
            wait_until(lambda: load.reads > seen + 60, what="reads behind the switch")
        status = memtend.ok("reindex", "--status", "--json").value
        assert (status["serves"]["embedder"], status["stage"]) == ("all-MiniLM-L6-v2-int8", "done")
        assert status["kept"]["embedder"] == "wordllama-256-tempered"

        assert load.failed == []
        assert len(load.spaces) == 2
        ledger.close()
        wait_until(lambda: _lost(stack, load) == set(), seconds=120, what="the last memories")
        lines = memtend.ok("export").out.splitlines()
        assert len(lines) == MEMORIES + sum(map(len, load.stored.values()))


def _lost(stack: StackAddress, load: Load) -> set[str]:
    async def missing() -> set[str]:
        backend = create_worker_backend(stack.settings, Policy())
        await backend.connect()
        lost: set[str] = set()
        for agent, ids in load.stored.items():
            found = await backend.get_many(agent, ids)
            lost |= set(ids) - {one.entry.id for one in found}
        await backend.disconnect()
        return lost

    return asyncio.run(missing())
