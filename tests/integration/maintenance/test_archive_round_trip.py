"""From the store to the archive and back: the same memory, byte for byte, whatever stood in it."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.collection_setup import active_collection_of, switch_collection
from support.hashing_embedder import HashingEmbedder
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    START,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    comparable,
    memory,
    uid,
)
from support.thorough import examples

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, ConsolidationStrategyType
from memcore.embedding.bm25 import Bm25Encoder, SparseVector
from memcore.jobs import Done
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery
from memcore.records import Lineage, MemoryRecord, Vectors

if TYPE_CHECKING:
    from memcore.backends.inmemory import InMemoryBackend

POLICY = ConsolidationConfig(
    archival=ArchivalConfig(enabled=True, age_threshold_days=10),
    max_memories_per_agent=1,
    strategy=ConsolidationStrategyType.NONE,
    max_removed_fraction=1.0,
)

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(lambda value: value.strip())
key = text.map(str.strip)
ages = st.timedeltas(min_value=START - START.replace(day=1, month=2), max_value=START - START.replace(year=2020))
vectors = st.builds(
    Vectors,
    dense=st.lists(st.floats(width=32), min_size=3, max_size=3).map(lambda made: np.array(made, dtype=np.float32)),
    sparse=st.none() | st.just(SparseVector(indices=(1, 2**32 - 1), values=(0.1, 1 / 3))),
)


@st.composite
def records(draw: st.DrawFn) -> list[MemoryRecord]:
    """Memories of all kinds, old enough for the archive; a plain one, the most valuable, stays."""
    made = [
        MemoryRecord(
            entry=MemoryEntry(
                id=uid(number),
                agent_id=AGENT,
                namespace=draw(key),
                category=draw(st.sampled_from(MemoryCategory)),
                content=draw(text),
                metadata=MemoryMetadata(
                    source=draw(st.none() | key),
                    confidence=draw(st.floats(0, 1)),
                    tags=tuple(draw(st.lists(key.filter(lambda tag: tag not in {"core", "pinned"}), max_size=3))),
                ),
                created_at=START - draw(ages),
                expires_at=draw(st.none() | st.just(START.replace(year=2030))),
            ),
            lineage=draw(st.builds(Lineage, project_id=st.none() | key, summary_of=st.just(("x", "y")))),
            vectors=draw(st.none() | vectors),
            extra=draw(
                st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=9), max_size=3)
            ),
        )
        for number in range(1, draw(st.integers(2, 6)))
    ]
    return [*made, memory(99, days_old=0, tags=["pinned"])]


@settings(max_examples=examples(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filled=records(), data=st.data())
async def test_what_goes_to_the_archive_and_comes_back_is_the_same(
    make_maintenance_fixture: MakeMaintenanceFixture, filled: list[MemoryRecord], data: st.DataObject
) -> None:
    world = make_maintenance_fixture(POLICY)
    await world.store(filled)
    before = await world.snapshot()
    await world.maintenance_run()
    found = world.ledger.archive.search(COMPANY, AGENT, MemoryQuery(limit=100))
    assert {each.original_id for each in found} == {uid(number) for number in range(1, len(filled))}

    for each in data.draw(st.permutations(found)):
        entry_id = data.draw(st.sampled_from([each.archival_id, each.original_id]))
        run = world.plan_run(kind="restore", scope_id=entry_id)
        assert await world.to_the_end(run.run_id) == Done(facts={"restored": 1})

    assert await world.snapshot() == before
    assert world.ledger.archive.count(COMPANY, AGENT) == 0
    assert world.ledger.journal.protected_by_undo(COMPANY, AGENT) == {each.original_id for each in found}
    await world.check_balance()
    world.ledger.close()


@pytest.fixture
def place(shared_place: Mem0Config) -> Mem0Config:
    return shared_place.model_copy(update={"collection": Mem0Config.collection_of("archives")})


@pytest.fixture
async def mem0_world(
    make_maintenance_fixture: MakeMaintenanceFixture, place: Mem0Config
) -> AsyncIterator[MaintenanceFixture]:
    world = make_maintenance_fixture(POLICY)
    backend = Mem0Backend(place, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=world.clock)
    # The world asks only for what the batch protocol has.
    world.backend = cast("InMemoryBackend", backend)
    yield world
    await backend.disconnect()


async def test_the_real_store_gets_back_what_it_had_and_embeds_anew_for_another_embedder(
    mem0_world: MaintenanceFixture,
) -> None:
    world = mem0_world
    await world.store(
        [
            *(memory(n, days_old=30 + n, content=f"the deploy of service {n}") for n in range(1, 6)),
            memory(9, days_old=0),
        ]
    )
    before = await world.live()
    await world.maintenance_run()
    (first, *rest) = world.ledger.archive.search(COMPANY, AGENT, MemoryQuery(text="deploy", limit=100))
    assert len(rest) == 4
    assert first.vector_space == world.backend.vector_space
    assert first.vector_space is not None
    for each in rest:
        await world.to_the_end(world.plan_run(kind="restore", scope_id=each.original_id).run_id)
    now = await world.live()
    assert {key: comparable(record) for key, record in now.items()} == {
        key: comparable(record) for key, record in before.items() if key != first.original_id
    }

    backend = cast("Mem0Backend", world.backend)
    identity = active_collection_of(backend).identity
    switch_collection(backend, identity=identity.model_copy(update={"name": "another"}))
    assert backend.vector_space != first.vector_space
    await world.to_the_end(world.plan_run(kind="restore", scope_id=first.original_id).run_id)
    back = (await world.live())[first.original_id]
    assert back.vectors is not None, "it was embedded anew"
    assert back.entry == before[first.original_id].entry
    journaled = next(iter(world.ledger.journal.journal_entries(world.ledger.runs.list(COMPANY, limit=1)[0].run_id)))
    assert journaled.incoming[0].vectors is None
