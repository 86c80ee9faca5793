"""Changes on a store with vectors: what is alike in other words is found, and kill -9 at any call loses nothing."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from support.fake_teacher import FakeTeacher
from support.fault_injection import Faults, crash_points
from support.forked import Child
from support.memories import DAWN, StoppedClock, new_agent, record

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.maintenance import ConsolidationConfig
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.factory import create_embedder
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.ledger import Ledger
from memcore.maintenance.changes import ChangesService
from memcore.models.memory import MemoryQuery

ANSWER = {"question": "Where does she live?", "then": "Oslo", "now": "Rome"}

OLD, NEW = "Ada lives in Oslo.", "Ada moved to Rome with her sister."


async def with_backend(place: Mem0Config, clock: StoppedClock, do: Callable[[Mem0Backend], Any]) -> Any:
    backend = Mem0Backend(place, company="acme", embedder=create_embedder(), encoder=Bm25Encoder(), clock=clock)
    await backend.connect()
    try:
        return await do(backend)
    finally:
        await backend.disconnect()


def store(place: Mem0Config, clock: StoppedClock) -> str:
    agent = new_agent()
    said = {OLD: 1, "Ada likes tea.": 2, "Ben lives in Bergen.": 3, NEW: 30}
    kept = [record(agent, text, created_at=DAWN + timedelta(days=day)) for text, day in said.items()]
    asyncio.run(with_backend(place, clock, lambda backend: backend.store_many(kept)))
    return agent


def look(place: Mem0Config, urls: LedgerUrls, clock: StoppedClock, agent: str, faults: Faults) -> FakeTeacher:
    """Compare the memories of an agent once."""
    ledger, model = Ledger.open(urls, clock=clock), FakeTeacher(always=json.dumps(ANSWER))

    async def find(backend: Mem0Backend) -> None:
        finding = ChangesService(
            faults.backend(backend),
            faults.ledger(ledger),
            ConsolidationConfig.model_validate({"changes": {"enabled": True}}),
            company="acme",
            model=faults.watched(model, "model"),
            default_model="m",
            clock=clock,
        )
        await finding.run(agent)

    ledger.change_finding.request_for("acme", agent)
    asyncio.run(with_backend(place, clock, find))
    ledger.close()
    return model


def die(place: Mem0Config, urls: LedgerUrls, clock: StoppedClock, agent: str, dying: Faults) -> bytes:
    look(place, urls, clock, agent, dying)
    return b"survived"


def left(place: Mem0Config, urls: LedgerUrls, clock: StoppedClock, agent: str) -> tuple[dict[str, str], list[Any]]:
    """Return what was replaced by what, and the states of the pairs."""
    found = asyncio.run(with_backend(place, clock, lambda backend: backend.retrieve(agent, MemoryQuery())))
    texts, ledger = {each.id: each.content for each in found}, Ledger.open(urls, clock=clock)
    pairs = ledger.consolidation_groups.pairs("acme", agent)
    ledger.close()
    return (
        {each.content: texts[each.superseded_by] for each in found if each.superseded_by is not None},
        [(*(texts[memory_id] for memory_id in pair.source_ids), pair.state) for pair in pairs],
    )


def test_a_change_in_other_words_is_found_whenever_the_worker_is_killed(
    place: Mem0Config, sqlite_ledger: LedgerUrls, clock: StoppedClock
) -> None:
    agent, counting = store(place, clock), Faults()
    model = look(place, sqlite_ledger, clock, agent, counting)
    replaced, pairs = left(place, sqlite_ledger, clock, agent)
    assert OLD in replaced
    assert {each.messages[-1].content.count("Ben") for each in model.asked} == {0}
    for point in crash_points(counting.calls):
        agent = store(place, clock)
        dying = Faults(point, strike=lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert Child(partial(die, place, sqlite_ledger, clock, agent, dying)).ended() == -signal.SIGKILL
        clock.now += LEASE_LENGTH
        look(place, sqlite_ledger, clock, agent, Faults())
        assert left(place, sqlite_ledger, clock, agent) == (replaced, pairs), counting.calls[point]
