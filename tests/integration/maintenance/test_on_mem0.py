"""The same run on the real store: what comes back is what was there, vectors and foreign payload keys included."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import pytest
from support.fake_summarizer import FakeSummarizer
from support.hashing_embedder import HashingEmbedder
from support.lesson_memories import lesson_memory
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    comparable,
    memory,
)
from support.model_runs import LLM

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.maintenance import ConsolidationConfig, PruningConfig, RetentionConfig
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import RetryExhaustedError
from memcore.jobs import Done
from memcore.maintenance.shadow import ShadowMemories
from memcore.models.memory import FALLBACK_TAG, MemoryCategory, MemoryQuery
from memcore.records import Where

if TYPE_CHECKING:
    from memcore.backends.inmemory import InMemoryBackend


@pytest.fixture
def place(shared_place: Mem0Config) -> Mem0Config:
    return shared_place.model_copy(update={"collection": Mem0Config.collection_of("runs")})


@pytest.fixture
async def mem0_world(
    make_maintenance_fixture: MakeMaintenanceFixture, place: Mem0Config
) -> AsyncIterator[MaintenanceFixture]:
    world = make_maintenance_fixture(
        ConsolidationConfig(
            strategy=CONDENSE,
            retention=RetentionConfig(default_retention_days=90),
            max_memories_per_agent=8,
            max_removed_fraction=1.0,
        )
    )
    backend = Mem0Backend(place, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=world.clock)
    # The world asks only for what the batch protocol has.
    world.backend = cast("InMemoryBackend", backend)
    yield world
    await backend.disconnect()


async def test_a_run_its_undo_and_the_undo_of_that_are_exact_on_the_real_store(mem0_world: MaintenanceFixture) -> None:
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

    maintenance_run = await world.maintenance_run()

    counts = maintenance_run.counts
    assert (counts["retention"], counts["expired"], counts["consolidated"], counts["summaries"]) == (3, 1, 25, 4)
    assert counts["enforced"] > 0
    assert len(await world.live()) == 8
    await world.check_balance()
    after = await world.snapshot()

    undo = await world.undo(maintenance_run.run_id)
    assert undo.counts["skipped"] == 0
    assert await world.snapshot() == before
    await world.check_balance()

    await world.undo(undo.run_id)
    assert await world.snapshot() == after
    await world.check_balance()


@pytest.mark.parametrize("kind", ["ttl", "pareto", "hybrid"])
async def test_lessons_are_forgotten_and_come_back_on_the_real_store(mem0_world: MaintenanceFixture, kind: str) -> None:
    world = mem0_world
    world.pruning = PruningConfig.model_validate({"type": kind, "max_age_days": 20, "max_entries": 3})
    agent = f"ada-{kind}"
    number = 50 + ["ttl", "pareto", "hybrid"].index(kind)
    outsider = memory(number, days_old=50, category=MemoryCategory.PROCEDURAL, agent_id=agent, tags=["core"])
    lessons = [lesson_memory(n, days_old=3 * n + 1, agent_id=agent) for n in range(1, 10)]
    pinned = lesson_memory(11, days_old=60, agent_id=agent, more_tags=["pinned"])
    await world.store([*lessons, pinned, outsider])
    whole = await world.live(agent)

    run = world.plan_run(agent_id=agent)
    assert isinstance(await world.to_the_end(run.run_id), Done)

    kept = {"ttl": 6, "pareto": 3, "hybrid": 3}[kind]
    assert world.run(run.run_id).counts["pruned"] == 9 - kept
    assert set(await world.live(agent)) == {each.entry.id for each in (*lessons[:kept], pinned, outsider)}
    undo = world.plan_run(agent_id=agent, undo_of=run.run_id)
    assert isinstance(await world.to_the_end(undo.run_id), Done)
    back = await world.live(agent)
    assert {key: comparable(each) for key, each in back.items()} == {
        key: comparable(each) for key, each in whole.items()
    }


async def test_a_shadow_ranks_as_the_store_does(mem0_world: MaintenanceFixture) -> None:
    world = mem0_world
    agent = "ada-shadow"
    texts = [f"service {n} of {name} failed {n % 7} times in {city}" for n, (name, city) in enumerate(zip(
        ["Amara", "Kwame", "Halina", "Okello", "Zofia", "Yusuf", "Petra", "Emeka"] * 5,
        ["Riga", "Oaxaca", "Tbilisi", "Zanzibar"] * 10, strict=True
    ))]  # fmt: skip
    await world.store(memory(100 + n, content=text, agent_id=agent) for n, text in enumerate(texts))
    backend = cast("Mem0Backend", world.backend)
    shadow = await ShadowMemories.of(backend, agent)
    questions = ["where did the service of Amara fail", "Zanzibar 3 times", "Kwame Riga", "nothing of the kind"]
    await shadow.ask(dict.fromkeys(questions, ()))
    for text in questions:
        query = MemoryQuery(text=text, limit=50)
        both = [await each.retrieve_rankings(agent, query) for each in (backend, shadow)]
        for name in ("dense", "sparse"):
            scores = [{hit.entry.id: hit.score for hit in getattr(lists, name)} for lists in both]
            assert scores[1] == pytest.approx(scores[0], abs=1e-4), (text, name)


async def test_a_shadow_finds_nothing_for_a_question_whose_answer_no_memory_has(
    mem0_world: MaintenanceFixture,
) -> None:
    world, agent = mem0_world, "ada-answers"
    await world.store([memory(1, content="Amara adopted a cat in Riga", agent_id=agent)])
    shadow = await ShadowMemories.of(cast("Mem0Backend", world.backend), agent)
    query = MemoryQuery(text="Amara in Riga")
    for answers, found in ((("adopt",), 1), (("dog",), 0), (("dog", "cat"), 1), ((), 1)):
        await shadow.ask({"Amara in Riga": answers})
        assert len((await shadow.retrieve_rankings(agent, query)).sparse) == found, answers


async def test_a_summary_that_fell_back_is_written_again_and_an_undo_of_that_is_exact(
    mem0_world: MaintenanceFixture,
) -> None:
    world, model = mem0_world, FakeSummarizer(script=[RetryExhaustedError("away")])
    world.policy, world.model, world.patience = LLM, model, timedelta(0)
    # Tests share the collection.
    await world.backend.connect()
    await world.backend.delete_where(Where(agent_id=AGENT))
    await world.store(
        memory(n, days_old=60 - n, content=f"We spoke about {n} gardens. It rained. " + "Y" * 300) for n in range(1, 5)
    )
    await world.maintenance_run()
    assert [FALLBACK_TAG in each.entry.metadata.tags for each in await world.summaries()] == [True]
    before = await world.snapshot()

    run = await world.maintenance_run()

    assert [each.entry.content[:9] for each in await world.summaries()] == ["In short:"]
    await world.undo(run.run_id)
    assert await world.snapshot() == before
