"""One agent never reads, counts, changes or deletes another's memories, whatever ids it knows."""

from memories import new_agent, record

from memcore.backends.factory import WorkerBackend
from memcore.backends.where import Where
from memcore.models import MemoryCategory, MemoryMetadata, MemoryQuery


async def test_knowing_another_agents_ids_opens_nothing(backend: WorkerBackend) -> None:
    owner, thief = new_agent("owner"), new_agent("thief")
    secret = record(owner, "the safe opens at 17-4-33", tags=("secret",))
    await backend.store_many([secret])
    before = await backend.get_many(owner, [secret.entry.id], with_vectors=True)
    memory_id, theirs = secret.entry.id, Where(agent_id=thief, ids=frozenset({secret.entry.id}))

    assert await backend.get(thief, memory_id) is None
    assert await backend.get_many(thief, [memory_id], with_vectors=True) == ()
    assert await backend.retrieve(thief, MemoryQuery()) == ()
    assert await backend.retrieve(thief, MemoryQuery(text="the safe opens at 17-4-33")) == ()
    assert await backend.count(thief) == 0
    assert await backend.count_where(theirs) == 0
    assert (await backend.scan(theirs, with_vectors=True)).records == ()
    assert not await backend.delete(thief, memory_id)
    assert await backend.delete_many(thief, [memory_id]) == 0
    assert await backend.delete_where(theirs) == 0
    assert await backend.delete_where(Where(agent_id=thief)) == 0
    assert await backend.set_metadata_many(thief, [memory_id], MemoryMetadata(tags=("defaced",))) == 0
    assert await backend.claim(theirs, "token") == 0

    assert str(await backend.get_many(owner, [memory_id], with_vectors=True)) == str(before)
    assert await backend.count(owner) == 1


async def test_another_agent_cannot_overwrite_a_memory_by_its_id(backend: WorkerBackend) -> None:
    owner, thief = new_agent("owner"), new_agent("thief")
    mine = record(owner, "mine")
    await backend.store_many([mine])

    await backend.store_many([record(thief, "no, mine", memory_id=mine.entry.id)])

    entry = await backend.get(owner, mine.entry.id)
    assert entry is not None
    assert entry.content == "mine"
    assert await backend.count(thief) == 0


async def test_marks_of_one_agent_are_nothing_to_another(backend: WorkerBackend) -> None:
    first, second = new_agent("first"), new_agent("second")
    await backend.store_many([record(first), record(second)])
    assert await backend.claim(Where(agent_id=first), "same token") == 1
    assert await backend.claim(Where(agent_id=second), "same token") == 1

    await backend.unclaim(second)

    assert await backend.delete_where(Where(agent_id=second, token="same token")) == 0
    assert await backend.delete_where(Where(agent_id=first, token="same token")) == 1


async def test_agents_whose_ids_begin_alike_are_two_agents(backend: WorkerBackend) -> None:
    agent = new_agent("a")
    longer = agent + "-b"
    await backend.store_many([record(agent, category=MemoryCategory.SOCIAL), record(longer)])

    assert await backend.delete_where(Where(agent_id=agent)) == 1
    assert await backend.count(longer) == 1
