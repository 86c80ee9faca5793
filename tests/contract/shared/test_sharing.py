"""What every shared knowledge store does."""

from datetime import timedelta

import pytest
from support.memories import StoppedClock, record
from support.publications import Sharing, reported

from memcore import ids
from memcore.backends.protocol import SharedKnowledgeStore
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.models.answers import Shown
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery
from memcore.records import Where

ALL = MemoryQuery(limit=1000)


async def seen(backend: Sharing, query: MemoryQuery = ALL, **how: object) -> dict[str, str]:
    """Return what a search finds, publisher by text."""
    return {e.content: e.agent_id for e in await backend.search_shared(query, **how)}  # type: ignore[arg-type]


async def test_what_one_publishes_all_find_with_its_publisher(backend: Sharing, clock: StoppedClock) -> None:
    assert isinstance(backend, SharedKnowledgeStore)
    assert backend.supports_shared_access
    notice = reported(metadata=MemoryMetadata(source="notice", confidence=0.5, tags=("house",)), namespace="office")
    memory_id = await backend.publish("ada", notice)

    (found,) = await backend.search_shared(MemoryQuery(text="canteen"))
    assert (found.id, found.agent_id, found.content) == (memory_id, "ada", notice.content)
    assert (found.metadata, found.namespace, found.category) == (notice.metadata, "office", MemoryCategory.SEMANTIC)
    assert found.created_at == clock()


async def test_a_question_about_something_else_finds_nothing(backend: Sharing) -> None:
    await backend.publish("ada", reported("Deploys freeze on Fridays"))
    assert await seen(backend, MemoryQuery(text="quantum chromodynamics lattice", standing=Shown.STRONG)) == {}


async def test_a_query_narrows_what_is_found(backend: Sharing, clock: StoppedClock) -> None:
    await backend.publish("ada", reported("memory one", metadata=MemoryMetadata(tags=("red",))))
    clock.now += timedelta(days=1)
    await backend.publish("bob", reported("memory two", namespace="other", category="social"))
    noon = clock.now
    clock.now += timedelta(days=1)
    await backend.publish("ada", reported("memory three"))

    assert await seen(backend) == {"memory one": "ada", "memory two": "bob", "memory three": "ada"}
    newest = await backend.search_shared(ALL)
    assert [e.content for e in newest] == ["memory three", "memory two", "memory one"]
    for text in (None, "memory"):
        query = MemoryQuery(text=text)
        assert set(await seen(backend, query, exclude_agent="ada")) == {"memory two"}
        assert set(await seen(backend, query, exclude_agent=("ada",))) == {"memory two"}
        assert set(await seen(backend, query, exclude_agent=("ada", "bob"))) == set()
        assert set(await seen(backend, query.model_copy(update={"tags": ("red",)}))) == {"memory one"}
        assert set(await seen(backend, query.model_copy(update={"namespaces": frozenset({"other"})}))) == {"memory two"}
        social = frozenset({MemoryCategory.SOCIAL})
        assert set(await seen(backend, query.model_copy(update={"categories": social}))) == {"memory two"}
        assert set(await seen(backend, query.model_copy(update={"since": noon}))) == {"memory two", "memory three"}
        assert set(await seen(backend, query.model_copy(update={"until": noon}))) == {"memory one"}
        assert len(await backend.search_shared(query.model_copy(update={"limit": 2}))) == 2


async def test_publishing_the_same_again_is_one_publication(backend: Sharing) -> None:
    first = await backend.publish("ada", reported())
    assert await backend.publish("ada", reported(metadata=MemoryMetadata(tags=("later",)))) == first
    assert await backend.shared_version() == 1
    assert await backend.publish("bob", reported()) != first
    assert [e.agent_id for e in await backend.search_shared(ALL)].count("ada") == 1
    assert await backend.shared_version() == 2


async def test_only_the_publisher_retracts(backend: Sharing) -> None:
    memory_id = await backend.publish("ada", reported())
    assert not await backend.retract("bob", memory_id)
    assert not await backend.retract("ada", ids.new_id())
    assert not await backend.retract("ada", "no id at all")
    assert (await seen(backend), await backend.shared_version()) == ({"the canteen closes at two": "ada"}, 1)

    assert await backend.retract("ada", memory_id)
    assert (await seen(backend), await backend.shared_version()) == ({}, 2)
    assert not await backend.retract("ada", memory_id)
    assert await backend.shared_version() == 2


async def test_what_is_published_once_stays_retracted(backend: Sharing, clock: StoppedClock) -> None:
    fleeting = reported("gone tomorrow", expires_at=clock() + timedelta(days=1))
    once = {request.content: await backend.publish("ada", request, once=True) for request in (reported(), fleeting)}
    assert await backend.publish("ada", reported(), once=True) == once[reported().content]
    assert await backend.retract("ada", once[reported().content])
    clock.now += timedelta(days=2)
    version = await backend.shared_version()
    for request in (reported(), fleeting.model_copy(update={"expires_at": None})):
        assert await backend.publish("ada", request, once=True) == once[request.content]
    assert (await seen(backend), await backend.shared_version()) == ({}, version)
    # Whoever does not ask for that publishes anew, as ever.
    assert await backend.publish("ada", reported()) != once[reported().content]


async def test_what_was_retracted_can_be_published_again(backend: Sharing) -> None:
    first = await backend.publish("ada", reported())
    await backend.retract("ada", first)
    again = await backend.publish("ada", reported())

    assert again != first
    assert [e.id for e in await backend.search_shared(ALL)] == [again]
    assert not await backend.retract("ada", first), "a late retraction of the first means the first"
    assert [e.id for e in await backend.search_shared(ALL, version=1)] == [first]


async def test_what_has_expired_is_not_found_and_can_be_published_again(backend: Sharing, clock: StoppedClock) -> None:
    day = timedelta(days=1)
    first = await backend.publish("ada", reported(expires_at=clock() + day))
    assert [e.id for e in await backend.search_shared(MemoryQuery(text="canteen"))] == [first]
    clock.now += day
    assert await backend.search_shared(ALL) == await backend.search_shared(MemoryQuery(text="canteen")) == ()
    again = await backend.publish("ada", reported(expires_at=clock() + day))
    assert [e.id for e in await backend.search_shared(MemoryQuery(text="canteen"))] == [again]
    with pytest.raises(MemoryInputError, match="expires_at"):
        await backend.publish("ada", reported("too late", expires_at=clock() - day))
    assert await backend.shared_version() == 2


async def test_an_older_version_stays_as_it_was(backend: Sharing) -> None:
    assert await backend.shared_version() == 0
    one = await backend.publish("ada", reported("memory one"))
    await backend.publish("bob", reported("memory two"))
    await backend.retract("ada", one)

    for text in (None, "memory"):
        query = MemoryQuery(text=text)
        snapshots = [await seen(backend, query, version=version) for version in range(4)]
        assert snapshots == [
            {},
            {"memory one": "ada"},
            {"memory one": "ada", "memory two": "bob"},
            {"memory two": "bob"},
        ]
    for version in (4, -1):
        with pytest.raises(MemoryInputError, match="version"):
            await backend.search_shared(ALL, version=version)
        with pytest.raises(MemoryInputError, match="version"):
            await backend.search_shared_sparse(MemoryQuery(text="memory"), version=version)


async def test_later_publications_change_no_score_of_an_older_version(backend: Sharing) -> None:
    for number in range(3):
        await backend.publish("ada", reported(f"a memory of soup number {number}"))
    query = MemoryQuery(text="soup number", limit=2)

    async def scores() -> list[tuple[str, float | None]]:
        found = (
            *await backend.search_shared(query, version=3),
            *await backend.search_shared_sparse(query, version=3),
        )
        return [(entry.id, entry.relevance_score) for entry in found]

    before = await scores()
    for number in range(5):
        await backend.publish("bob", reported(f"soup, soup and nothing but soup, {number}"))
    assert await scores() == before


async def test_keywords_find_what_says_the_word(backend: Sharing) -> None:
    soup = await backend.publish("ada", reported("the soup is hot"))
    await backend.publish("ada", reported("the bread is fresh"))
    await backend.store("ada", reported("the soup of my own"))
    found = await backend.search_shared_sparse(MemoryQuery(text="soup"))
    assert [entry.id for entry in found] == ([soup] if backend.supports_vector_search else [])
    assert await backend.search_shared_sparse(MemoryQuery(text="soup"), exclude_agent="ada") == ()
    assert await backend.search_shared_sparse(MemoryQuery()) == ()


async def test_private_and_shared_never_meet(backend: Sharing) -> None:
    private = await backend.store("ada", reported())
    shared = await backend.publish("ada", reported())
    assert private != shared

    assert [e.id for e in await backend.search_shared(ALL)] == [shared]
    assert [e.id for e in await backend.search_shared(MemoryQuery(text="canteen"))] == [shared]
    for agent in ("ada", "bob"):
        mine = [private] if agent == "ada" else []
        assert [e.id for e in await backend.retrieve(agent, ALL)] == mine
        assert [e.id for e in await backend.retrieve(agent, MemoryQuery(text="canteen"))] == mine
        assert await backend.count(agent) == len(mine)
        assert await backend.get(agent, shared) is None
        assert await backend.get_many(agent, [shared]) == ()
        assert not await backend.delete(agent, shared)
        assert await backend.delete_many(agent, [shared]) == 0
        assert await backend.set_metadata_many(agent, [shared], MemoryMetadata(tags=("defaced",))) == 0
        assert await backend.claim(Where(agent_id=agent, ids=frozenset({shared})), "token") == 0
    assert not await backend.retract("ada", private)

    assert await backend.delete_where(Where(agent_id="ada")) == 1
    (left,) = await backend.search_shared(ALL)
    assert (left.id, left.metadata) == (shared, MemoryMetadata())


async def test_a_private_memory_cannot_take_the_place_of_a_shared_one(backend: Sharing) -> None:
    shared = await backend.publish("ada", reported())
    await backend.store_many([record("bob", "not so", memory_id=shared)])
    assert await seen(backend) == {"the canteen closes at two": "ada"}


async def test_an_agent_that_cannot_be_publishes_nothing(backend: Sharing) -> None:
    for agent in ("", " padded ", "__shared__", "__anything", "x" * 300):
        for call in (
            backend.publish(agent, reported()),
            backend.retract(agent, ids.new_id()),
            backend.search_shared(ALL, exclude_agent=agent),
        ):
            with pytest.raises(MemoryInputError, match="agent_id"):
                await call
    assert await backend.shared_version() == 0


async def test_nothing_works_before_connect(backend: Sharing) -> None:
    await backend.disconnect()
    for call in (
        backend.publish("ada", reported()),
        backend.search_shared(ALL),
        backend.search_shared_sparse(ALL),
        backend.retract("ada", ids.new_id()),
        backend.shared_version(),
    ):
        with pytest.raises(MemoryConnectionError):
            await call
