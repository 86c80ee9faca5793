"""Search notes: other words by which a memory is found, on every backend."""

from support.memories import new_agent, record

from memcore.backends.factory import WorkerBackend
from memcore.models.memory import MemoryMetadata
from memcore.records import SearchNotes, Where

NOTES = SearchNotes(by="model/1", texts=("furnace heater repair",))


async def test_notes_are_kept_beside_a_memory_and_shown_to_nobody(backend: WorkerBackend) -> None:
    agent = new_agent()
    one, other = record(agent, "The boiler was serviced.", tags=("home",)), record(agent, "The kettle is new.")
    await backend.store_many([one, other])
    before = {each.entry.id: each for each in await backend.get_many(agent, [one.entry.id, other.entry.id])}

    assert await backend.set_search_notes(agent, {one.entry.id: NOTES, "no-such-id": NOTES}) == 1

    (noted,) = await backend.get_many(agent, [one.entry.id])
    assert (noted.entry.search_notes, noted.noted_by) == (NOTES.texts, NOTES.by)
    assert noted.entry.model_dump_json() == before[one.entry.id].entry.model_dump_json()
    assert "furnace" not in f"{noted.entry!r} {noted.entry.model_dump_json()}"
    assert await backend.get_many(agent, [other.entry.id]) == (before[other.entry.id],)
    unnoted = await backend.scan(Where(agent_id=agent, unnoted_by=NOTES.by))
    assert [each.entry.id for each in unnoted.records] == [other.entry.id]
    assert await backend.count_where(Where(agent_id=agent, unnoted_by="model/2")) == 2


async def test_later_notes_take_the_place_of_earlier_ones(backend: WorkerBackend) -> None:
    agent = new_agent()
    one = record(agent, "The boiler was serviced.")
    await backend.store_many([one])
    await backend.set_search_notes(agent, {one.entry.id: NOTES})
    await backend.set_search_notes(agent, {one.entry.id: SearchNotes(by="model/2", texts=("warm water",))})
    (noted,) = await backend.get_many(agent, [one.entry.id])
    assert (noted.entry.search_notes, noted.noted_by) == (("warm water",), "model/2")


async def test_notes_bring_no_memory_back_and_leave_a_run_its_mark(backend: WorkerBackend) -> None:
    agent = new_agent()
    gone, marked = record(agent, "The boiler was serviced."), record(agent, "The kettle is new.")
    await backend.store_many([gone, marked])
    assert await backend.claim(Where(agent_id=agent, ids=frozenset({marked.entry.id})), "a-run") == 1
    await backend.delete_many(agent, [gone.entry.id])

    assert await backend.set_search_notes(agent, {gone.entry.id: NOTES, marked.entry.id: NOTES}) == 1

    assert await backend.count(agent) == 1
    assert await backend.count_where(Where(agent_id=agent, token="a-run")) == 1
    await backend.set_metadata_many(agent, [marked.entry.id], MemoryMetadata(tags=("checked",)))
    (noted,) = await backend.get_many(agent, [marked.entry.id])
    assert noted.entry.search_notes == NOTES.texts


async def test_a_memory_that_is_put_back_has_its_notes(backend: WorkerBackend) -> None:
    agent = new_agent()
    one = record(agent, "The boiler was serviced.")
    await backend.store_many([one])
    await backend.set_search_notes(agent, {one.entry.id: NOTES})
    taken = await backend.get_many(agent, [one.entry.id], with_vectors=True)
    await backend.delete_many(agent, [one.entry.id])
    await backend.store_many(taken)
    assert str(await backend.get_many(agent, [one.entry.id], with_vectors=True)) == str(taken)
