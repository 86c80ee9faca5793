"""The same undos on the real store: what returns is what was there, vectors bit by bit."""

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_summarizer import FakeSummarizer
from support.hashing_embedder import HashingEmbedder
from support.maintenance_fixture import COMPANY, MaintenanceFixture, opened_world
from support.random_histories import HISTORIES, POLICIES, Step, stores
from support.thorough import examples
from support.undo_checks import run_and_record, undo_and_check

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.maintenance import ConsolidationConfig
from memcore.embedding.bm25 import Bm25Encoder
from memcore.records import MemoryRecord

if TYPE_CHECKING:
    from memcore.backends.inmemory import InMemoryBackend

#: Each example has a collection of its own.
NAMES = (f"undo-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def place(shared_place: Mem0Config) -> Mem0Config:
    return shared_place.model_copy(update={"collection": Mem0Config.collection_of("undo")})


@given(records=stores(most=12), policy=POLICIES, history=HISTORIES, pick=st.integers(0, 99))
@settings(max_examples=examples(2))
def test_an_undo_on_the_real_store_reverses_what_nobody_has_touched_since(
    ledger_template: Path,
    place: Mem0Config,
    records: list[MemoryRecord],
    policy: ConsolidationConfig,
    history: list[Step],
    pick: int,
) -> None:
    with opened_world(ledger_template, policy) as world:
        world.model = FakeSummarizer()
        asyncio.run(_on_mem0(world, place, records, [Step(act="night"), *history], pick))


async def _on_mem0(
    world: MaintenanceFixture, place: Mem0Config, records: list[MemoryRecord], history: list[Step], pick: int
) -> None:
    own = place.model_copy(update={"collection": Mem0Config.collection_of(next(NAMES))})
    backend = Mem0Backend(own, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=world.clock)
    # The world asks only for what the batch protocol has.
    world.backend = cast("InMemoryBackend", backend)
    try:
        # The store embeds them itself: vectors of three numbers are none of this embedder's.
        await world.store(replace(record, vectors=None) for record in records)
        recorded_run = await run_and_record(world, history)
        await undo_and_check(world, recorded_run[pick % len(recorded_run)])
        await undo_and_check(world, recorded_run[0])
    finally:
        await backend.disconnect()
