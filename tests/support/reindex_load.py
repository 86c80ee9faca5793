"""A load of reads and writes during a reindex, and its result."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

import psutil

from memcore import MemoryClient
from memcore.backends.factory import WorkerBackend, create_worker_backend
from memcore.client.envelopes import ImportRecord
from memcore.client.results import JobState
from memcore.config.policy import Policy
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest
from support.running_stack import StackAddress, wait_until

#: Whose memories they are.
AGENTS = ("alice", "bob", "carol", "dave")

#: How many a search has to find.
FOUND = 5


@dataclass
class Load:
    """The calls of the agents and their results.

    Attributes:
        stored: ids by agent, of every store that was accepted.
        reads: seconds that each search took.
        writes: seconds that each store straight into the backend took.
        failed: what went wrong, in words.
        spaces: what the vectors meant that were searched.
    """

    stored: dict[str, list[str]] = field(default_factory=dict)
    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    spaces: set[str | None] = field(default_factory=set)


def filled(stack: StackAddress, count: int) -> None:
    """Store so many memories and wait until they are there."""
    with MemoryClient.from_settings(stack.settings) as client:
        receipt = client.import_many(
            ImportRecord(
                agent_id=AGENTS[n % len(AGENTS)],
                category=MemoryCategory.SEMANTIC,
                content=f"Pump {n} of station {n % 97} was repaired on the {n % 28 + 1}th, after its seal broke.",
            )
            for n in range(count)
        )
        assert all(job.state is JobState.DONE for job in client.wait(receipt.job_ids, timeout_seconds=900))


def kill_run(stack: StackAddress) -> None:
    """End the maintenance worker and its children as the system would."""
    pid = stack.pid("worker-night")
    assert pid is not None
    parent = psutil.Process(pid)
    for process in [parent, *parent.children(recursive=True)]:
        process.kill()


@contextmanager
def constant_load(stack: StackAddress, *, pause_seconds: float = 0.05) -> Generator[Load]:
    """Search, store over the queue, and store straight into the backend, for as long as the context is open.

    After a search of each agent it pauses, and twice as long after a store.
    """
    load, stop = Load(), threading.Event()
    threads = [
        threading.Thread(target=_send, args=(stack, load, stop, 2 * pause_seconds)),
        threading.Thread(target=lambda: asyncio.run(_use(stack, load, stop, pause_seconds))),
    ]
    for thread in threads:
        thread.start()
    try:
        # What opens a connection reads the environment, which the command line of a test changes meanwhile.
        wait_until(lambda: bool(load.reads and load.stored) or not all(map(threading.Thread.is_alive, threads)))
        yield load
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def lost(stack: StackAddress, load: Load) -> set[str]:
    """Return the ids that were accepted and are not there."""

    async def missing() -> set[str]:
        backend = create_worker_backend(stack.settings, Policy())
        await backend.connect()
        gone: set[str] = set()
        for agent, ids in load.stored.items():
            gone |= set(ids) - {one.entry.id for one in await backend.get_many(agent, ids)}
        await backend.disconnect()
        return gone

    return asyncio.run(missing())


def _request(content: str) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=content)


def _send(stack: StackAddress, load: Load, stop: threading.Event, pause_seconds: float) -> None:
    number = 0
    with MemoryClient.from_settings(stack.settings) as client:
        while not stop.wait(pause_seconds):
            agent = AGENTS[number % len(AGENTS)]
            number += 1
            try:
                receipt = client.store(agent, _request(f"Gate {number} of the canal was opened by {agent}."))
            except MemoryError as error:
                load.failed.append(f"send: {error}")
            else:
                load.stored.setdefault(agent, []).extend(receipt.memory_ids)


async def _use(stack: StackAddress, load: Load, stop: threading.Event, pause_seconds: float) -> None:
    backend = create_worker_backend(stack.settings, Policy())
    await backend.connect()
    await asyncio.gather(_search(backend, load, stop, pause_seconds), _store(backend, load, stop, 2 * pause_seconds))
    await backend.disconnect()


async def _search(backend: WorkerBackend, load: Load, stop: threading.Event, pause_seconds: float) -> None:
    while not stop.is_set():
        for agent in AGENTS:
            began = monotonic()
            try:
                found = await backend.retrieve(agent, MemoryQuery(text="Which pump was repaired?", limit=FOUND))
            except MemoryError as error:
                load.failed.append(f"read: {error}")
                continue
            load.reads.append(monotonic() - began)
            load.spaces.add(backend.vector_space)
            if len(found) != FOUND:
                load.failed.append(f"read: {len(found)} found")
        await asyncio.sleep(pause_seconds)


async def _store(backend: WorkerBackend, load: Load, stop: threading.Event, pause_seconds: float) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        agent, began = AGENTS[number % len(AGENTS)], monotonic()
        try:
            stored = await backend.store(agent, _request(f"Lock {number} of the canal was painted."))
            # What was stored can be read at once, whatever is switched meanwhile.
            if await backend.get(agent, stored) is None:
                load.failed.append("read: not what was just written")
        except MemoryError as error:
            load.failed.append(f"write: {error}")
        else:
            load.writes.append(monotonic() - began)
            load.stored.setdefault(agent, []).append(stored)
        await asyncio.sleep(pause_seconds)
