"""Store, find, count and delete: the reference's own protocol."""

from datetime import timedelta

import pytest
from support.memories import DAWN, NOW, StoppedClock, new_agent, record, records

from memcore.backends.factory import WorkerBackend
from memcore.backends.fusion import HybridBackend
from memcore.errors import MemoryInputError
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest


async def test_what_is_stored_comes_back_as_it_was_given(backend: WorkerBackend) -> None:
    agent = new_agent()
    request = MemoryStoreRequest(
        category=MemoryCategory.PROCEDURAL,
        namespace="deploys",
        content="  first drain the node,\n\tthen restart it \u2014 never the other way round \U0001f9ea ",
        metadata=MemoryMetadata(source="run 17", confidence=0.1, tags=("ops", "ürgent")),
        expires_at=NOW + timedelta(days=3, microseconds=1),
        valid_from=NOW - timedelta(days=9, microseconds=7),
        valid_until=NOW + timedelta(days=1, microseconds=123457),
    )

    memory_id = await backend.store(agent, request)

    entry = await backend.get(agent, memory_id)
    assert entry is not None
    assert (entry.id, entry.agent_id, entry.created_at, entry.updated_at) == (memory_id, agent, NOW, None)
    kept = MemoryStoreRequest.model_fields.keys() - {"supersedes", "channel"}
    assert {name: getattr(entry, name) for name in kept} == {name: getattr(request, name) for name in kept}
    assert entry.relevance_score is None


async def test_what_is_found_of_a_summary_says_until_when_it_reaches(backend: WorkerBackend) -> None:
    agent, until = new_agent(), DAWN + timedelta(days=3)
    summary = record(agent, extra={"covers_until": until.isoformat()})
    await backend.store_many([summary])
    found = [
        await backend.get(agent, summary.entry.id),
        *await backend.retrieve(agent, MemoryQuery(text="printer")),
        *await backend.retrieve(agent, MemoryQuery()),
    ]
    if isinstance(backend, HybridBackend):
        found += [hit.entry for hit in (await backend.retrieve_rankings(agent, MemoryQuery(text="printer"))).dense]
    assert {each and (each.created_at, each.covers_until) for each in found} == {(DAWN, until)}
    assert await backend.get_many(agent, [summary.entry.id]) == (summary,)


async def test_the_same_memory_stored_twice_is_one_memory(backend: WorkerBackend, clock: StoppedClock) -> None:
    agent = new_agent()
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="the invoice is due on the 5th")

    first = await backend.store(agent, request)
    clock.now += timedelta(hours=1)
    second = await backend.store(agent, request)

    assert first == second
    assert await backend.count(agent) == 1
    entry = await backend.get(agent, first)
    assert entry is not None
    assert entry.created_at == NOW


async def test_an_expiry_that_has_passed_is_refused(backend: WorkerBackend) -> None:
    request = MemoryStoreRequest(
        category=MemoryCategory.SEMANTIC, content="too late", expires_at=NOW - timedelta(seconds=1)
    )
    with pytest.raises(MemoryInputError, match="expires_at"):
        await backend.store(new_agent(), request)


async def test_without_a_text_the_newest_come_first_and_the_limit_comes_last(backend: WorkerBackend) -> None:
    agent = new_agent()
    made = records(agent, 30)
    wanted = [r.entry.id for r in made if r.entry.content.endswith("7")]
    await backend.store_many(
        [
            record(
                agent, r.entry.content, memory_id=r.entry.id, created_at=r.entry.created_at,
                tags=("seven", "digit") if r.entry.id in wanted else ("digit",),
            )
            for r in made
        ]
    )  # fmt: skip

    found = await backend.retrieve(agent, MemoryQuery(tags=("seven", "digit"), limit=2))

    # A filter after the limit would have found nothing among the newest two.
    assert [entry.id for entry in found] == wanted[::-1][:2]
    assert [entry.relevance_score for entry in found] == [None, None]


async def test_filters_bound_a_query_to_the_microsecond(backend: WorkerBackend) -> None:
    agent = new_agent()
    tick = timedelta(microseconds=1)
    await backend.store_many([record(agent, f"tick {i}", created_at=DAWN + i * tick) for i in range(5)])

    found = await backend.retrieve(agent, MemoryQuery(since=DAWN + tick, until=DAWN + 3 * tick))

    assert [entry.content for entry in found] == ["tick 2", "tick 1"]


async def test_categories_and_namespaces_are_alternatives_and_none_of_them_is_nothing(backend: WorkerBackend) -> None:
    agent = new_agent()
    for category in MemoryCategory:
        for namespace in ("left", "right"):
            await backend.store_many([record(agent, f"{category} {namespace}", category=category, namespace=namespace)])

    both = frozenset({MemoryCategory.SOCIAL, MemoryCategory.WORKING})
    found = await backend.retrieve(agent, MemoryQuery(categories=both, namespaces=frozenset({"left"})))
    assert {entry.content for entry in found} == {"social left", "working left"}

    assert await backend.retrieve(agent, MemoryQuery(categories=frozenset())) == ()
    assert await backend.retrieve(agent, MemoryQuery(namespaces=frozenset())) == ()
    assert await backend.retrieve(agent, MemoryQuery(tags=("absent",))) == ()


async def test_a_text_finds_what_says_it_within_the_filters(backend: WorkerBackend) -> None:
    agent = new_agent()
    hit = record(agent, "The Quarterly Report is late", namespace="work")
    other = record(agent, "the quarterly report is done", namespace="home")
    await backend.store_many([hit, other, record(agent, "bread and butter", namespace="work")])

    found = await backend.retrieve(agent, MemoryQuery(text="quarterly report", namespaces=frozenset({"work"})))

    assert found[0].id == hit.entry.id
    assert other.entry.id not in {entry.id for entry in found}
    assert all(entry.relevance_score is None or 0.0 <= entry.relevance_score <= 1.0 for entry in found)


async def test_expired_memories_are_hidden_yet_counted_until_retention_removes_them(
    backend: WorkerBackend, clock: StoppedClock
) -> None:
    agent = new_agent()
    fleeting = record(agent, "the guest code is 1234", expires_at=NOW + timedelta(minutes=5))
    await backend.store_many([fleeting, record(agent, "the guest room is upstairs")])
    queries = [MemoryQuery(), MemoryQuery(text="guest code")]

    for query in queries:
        assert fleeting.entry.id in {entry.id for entry in await backend.retrieve(agent, query)}

    # At its expiry, not a microsecond later.
    clock.now = NOW + timedelta(minutes=5)
    for query in queries:
        assert fleeting.entry.id not in {entry.id for entry in await backend.retrieve(agent, query)}
    assert await backend.get(agent, fleeting.entry.id) is None
    assert await backend.count(agent) == 2
    assert len(await backend.get_many(agent, [fleeting.entry.id])) == 1
    assert await backend.delete(agent, fleeting.entry.id)


async def test_the_count_is_exact_beyond_a_thousand(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many(records(agent, 1_203))
    await backend.store_many([record(agent, "one of another kind", category=MemoryCategory.SOCIAL)])

    assert await backend.count(agent) == 1_204
    assert await backend.count(agent, category=MemoryCategory.SEMANTIC) == 1_203
    assert await backend.count(agent, category=MemoryCategory.WORKING) == 0
    assert len(await backend.retrieve(agent, MemoryQuery(limit=1_000))) == 1_000


async def test_deleting_says_whether_there_was_anything(backend: WorkerBackend) -> None:
    agent = new_agent()
    memory_id = await backend.store(agent, MemoryStoreRequest(category=MemoryCategory.WORKING, content="a scratch"))

    assert await backend.delete(agent, memory_id)
    assert not await backend.delete(agent, memory_id)
    assert await backend.get(agent, memory_id) is None
    assert await backend.count(agent) == 0


@pytest.mark.parametrize("memory_id", ["nothing", "", "123", "00000000-0000-0000-0000-000000000000", "../x"])
async def test_an_id_that_names_nothing_is_no_error(backend: WorkerBackend, memory_id: str) -> None:
    agent = new_agent()
    assert await backend.get(agent, memory_id) is None
    assert not await backend.delete(agent, memory_id)
    assert await backend.get_many(agent, [memory_id]) == ()
    assert await backend.delete_many(agent, [memory_id]) == 0
