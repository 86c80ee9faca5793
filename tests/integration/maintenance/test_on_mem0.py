"""The same night on the real store: what comes back is what was there, vectors and foreign payload keys included."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, cast

import pytest
from embedders import HashingEmbedder
from night_world import COMPANY, MakeWorld, World, memory
from pydantic import SecretStr
from servers import store_server

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.place import Mem0Place
from memcore.config.consolidation import ConsolidationConfig
from memcore.config.retention import RetentionConfig
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.migrate import migrate_history

if TYPE_CHECKING:
    from pathlib import Path

    from memcore.backends.inmemory import InMemoryBackend


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mem0Place]:
    folder: Path = tmp_path_factory.mktemp("store")
    history_url = f"sqlite:///{folder / 'history.db'}"
    migrate_history(history_url)
    with store_server(folder / "shards") as address:
        yield Mem0Place(
            url=address.url,
            api_key=SecretStr(address.api_key),
            history_url=history_url,
            collection=Mem0Place.collection_of("nights"),
        )


@pytest.fixture
async def mem0_world(make_world: MakeWorld, place: Mem0Place) -> AsyncIterator[World]:
    world = make_world(
        ConsolidationConfig(
            retention=RetentionConfig(default_retention_days=90), max_memories_per_agent=8, max_removed_fraction=1.0
        )
    )
    backend = Mem0Backend(place, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=world.clock)
    # The world asks only for what the batch protocol has.
    world.backend = cast("InMemoryBackend", backend)
    yield world
    await backend.disconnect()


async def test_a_night_its_undo_and_the_undo_of_that_are_exact_on_the_real_store(mem0_world: World) -> None:
    world = mem0_world
    records = [
        *(memory(n, days_old=100 + n, content=f"an old note about topic {n}") for n in range(1, 4)),
        *(memory(n, days_old=60 - n, content=f"the deploy of service {n} took {n} minutes") for n in range(4, 30)),
        *(memory(n, days_old=n - 30, tags=["fresh"], content=f"fresh thought {n}") for n in range(30, 40)),
        memory(40, days_old=1, expires_in_days=-0.5),
    ]
    await world.store(records)
    before = await world.snapshot()
    world.originals = await world.live()

    night = await world.night()

    counts = night.counts
    assert (counts["retention"], counts["expired"], counts["consolidated"], counts["summaries"]) == (3, 1, 28, 2)
    assert counts["enforced"] > 0
    assert len(await world.live()) == 8
    await world.check_balance()
    after = await world.snapshot()

    undo = await world.undo(night.run_id)
    assert undo.counts["skipped"] == 0
    assert await world.snapshot() == before
    await world.check_balance()

    await world.undo(undo.run_id)
    assert await world.snapshot() == after
    await world.check_balance()
