"""What replaced what: it stays, ranks behind, says so, and can be taken back; and what held at a time."""

import random
from datetime import datetime, timedelta

import pytest
from support.memories import DAWN, NOW, StoppedClock, new_agent

from memcore.backends.factory import WorkerBackend
from memcore.backends.fusion import HybridBackend
from memcore.backends.succession import mark_superseded, reinstate, supersede
from memcore.client.envelopes import ImportRecord
from memcore.errors import MemoryInputError
from memcore.models.memory import SUPERSEDED_TAG, MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.records import SUPERSEDES_KEY, MemoryRecord
from ops.cli.memory.transfer import line

DAY = timedelta(days=1)


def said(text: str, *supersedes: str, **more: datetime) -> MemoryStoreRequest:
    return MemoryStoreRequest.model_validate(
        {"category": MemoryCategory.SEMANTIC, "content": text, "supersedes": supersedes, **more}
    )


async def holding(backend: WorkerBackend, agent: str, at: datetime | None) -> set[str]:
    found = await backend.retrieve(agent, MemoryQuery(as_of=at, limit=100))
    assert all(entry.superseded_at is None for entry in found if at is not None)
    return {entry.id for entry in found}


async def test_what_was_replaced_says_by_what_and_since_when(backend: WorkerBackend, clock: StoppedClock) -> None:
    agent = new_agent()
    old = await backend.store(agent, said("Ada lives in Oslo"))
    clock.now += DAY
    new = await backend.store(agent, said("Ada lives in Bergen", old))
    entry = await backend.get(agent, old)
    assert entry is not None
    assert (entry.superseded_by, entry.superseded_at) == (new, NOW + DAY)
    assert SUPERSEDED_TAG in entry.metadata.tags
    # To say it again changes nothing.
    assert await backend.store(agent, said("Ada lives in Bergen", old)) == new
    assert await backend.get(agent, old) == entry
    # What was replaced may be true again.
    clock.now += DAY
    third = await backend.store(agent, said("Ada lives in Oslo", new))
    assert third != old
    kept = {each.id: each.superseded_by for each in await backend.retrieve(agent, MemoryQuery())}
    assert kept == {old: new, new: third, third: None}


async def test_a_search_puts_what_replaced_a_memory_before_it_whatever_its_words(backend: WorkerBackend) -> None:
    agent, clock_text = new_agent(), "the printer on the second floor jams"
    old = await backend.store(agent, said(clock_text))
    middle = await backend.store(agent, said("removed in spring", old))
    new = await backend.store(agent, said("gone for good", middle))
    for number in range(30):
        await backend.store(agent, said(f"the printer on floor {number} works"))
    found = await backend.retrieve(agent, MemoryQuery(text=clock_text, limit=3))
    if isinstance(backend, HybridBackend):
        assert [entry.id for entry in found] == [new, middle, old]
        lists = await backend.retrieve_rankings(agent, MemoryQuery(text=clock_text))
        assert {new, middle, old} <= {hit.entry.id for hit in lists.dense}
    else:
        assert [entry.id for entry in found] == [old]


async def test_a_mark_is_taken_back_as_if_it_had_never_been(backend: WorkerBackend, clock: StoppedClock) -> None:
    agent = new_agent()
    old, new = [await backend.store(agent, said(text)) for text in ("Ada lives in Oslo", "Ada lives in Bergen")]
    before = [each.entry.model_copy(update={"updated_at": None}) for each in await backend.get_many(agent, [old, new])]
    records = await backend.get_many(agent, [old, new])
    clock.now += DAY
    await supersede(backend, *records)
    marked, successor = await backend.get_many(agent, [old, new])
    assert marked.entry.superseded_by == new
    assert successor.supersedes == (old,)
    with pytest.raises(MemoryInputError, match="new_id"):
        await supersede(backend, successor, marked)
    with pytest.raises(MemoryInputError, match="new_id"):
        await supersede(backend, marked, marked)
    assert await reinstate(backend, marked)
    after = await backend.get_many(agent, [old, new])
    assert [each.entry.model_copy(update={"updated_at": None}) for each in after] == before
    assert [each.supersedes for each in after] == [(), ()]
    assert not await reinstate(backend, after[0])


async def test_what_was_replaced_by_a_memory_does_not_replace_it_in_turn(backend: WorkerBackend) -> None:
    agent = new_agent()
    first = await backend.store(agent, said("The pump is red."))
    second = await backend.store(agent, said("The pump is blue.", first))
    third = await backend.store(agent, said("The pump is green.", second))
    known = {each.entry.id: each for each in await backend.get_many(agent, [first, second, third])}
    for new in (first, second, third):
        with pytest.raises(MemoryInputError, match="new_id"):
            await supersede(backend, known[third], known[new])
    kept = {each.id: each.superseded_by for each in await backend.retrieve(agent, MemoryQuery())}
    assert kept == {first: second, second: third, third: None}


async def test_a_memory_that_replaced_many_can_be_exported_and_imported(backend: WorkerBackend) -> None:
    agent = new_agent()
    old = [await backend.store(agent, said(f"The code is {number}.")) for number in range(20)]
    new = await backend.store(agent, said("The code is gone."))
    for each in old:
        known = {record.entry.id: record for record in await backend.get_many(agent, [each, new])}
        await supersede(backend, known[each], known[new])
    (record,) = await backend.get_many(agent, [new])
    assert set(record.supersedes) == set(old)
    assert set(ImportRecord.model_validate_json(line(record)).supersedes) == set(old)


async def test_another_agents_memory_is_not_replaced(backend: WorkerBackend) -> None:
    mine, theirs = new_agent(), new_agent()
    target = await backend.store(theirs, said("a secret"))
    await backend.store(mine, said("no secret", target))
    entry = await backend.get(theirs, target)
    assert entry is not None
    assert entry.superseded_by is None


async def test_what_was_replaced_holds_while_its_successor_is_not_there(
    backend: WorkerBackend, clock: StoppedClock
) -> None:
    agent = new_agent()
    old = await backend.store(agent, said("Ada lives in Oslo"))
    clock.now += DAY
    ends = {"expires_at": clock.now + 9 * DAY}
    new = await backend.store(agent, said("Ada lives in Bergen", old, **ends))
    records = await backend.get_many(agent, [new], with_vectors=True)

    async def shown(at: datetime) -> set[str | None]:
        clock.now = at
        found = [await backend.get(agent, old), *await backend.retrieve(agent, MemoryQuery())]
        # Three words of its own: every backend finds it, and none but it.
        found += await backend.retrieve(agent, MemoryQuery(text="Ada lives in Oslo"))
        if isinstance(backend, HybridBackend):
            lists = await backend.retrieve_rankings(agent, MemoryQuery(text="Ada lives in Oslo"))
            found += [hit.entry for hit in (*lists.dense, *lists.sparse)]
        said_of = {each.superseded_by for each in found if each is not None and each.id == old}
        assert (old in await holding(backend, agent, at)) is (said_of == {None})
        return said_of

    assert await shown(NOW + 2 * DAY) == {new}
    await backend.delete_many(agent, [new])
    assert await shown(NOW + 2 * DAY) == {None}
    await backend.store_many(records)
    assert await shown(NOW + 2 * DAY) == {new}
    assert await shown(NOW + 11 * DAY) == {None}
    # The next version of the successor, or what it became, has another id.
    clock.now = NOW + 2 * DAY
    await backend.delete_many(agent, [new])
    third = await backend.store(agent, said("Ada has moved to Bergen"))
    (record,) = await backend.get_many(agent, [third])
    await backend.set_metadata_many(agent, [third], record.entry.metadata, extra={SUPERSEDES_KEY: [old]})
    assert await shown(NOW + 3 * DAY) == {third}


@pytest.mark.parametrize("seed", range(3))
async def test_as_of_is_what_held_at_that_time(backend: WorkerBackend, clock: StoppedClock, seed: int) -> None:
    agent, dice = new_agent(), random.Random(seed)
    start = {name: DAWN + timedelta(days=dice.randrange(40), hours=6) for name in ("from", "until")}
    #: Of each memory when it was made, begins, ends, and was replaced.
    model: dict[str, list[datetime]] = {}
    never = NOW + 900 * DAY
    for day in range(12):
        clock.now = DAWN + day * 2 * DAY
        for number in range(dice.randrange(3)):
            replaced = dice.sample(sorted(model), k=min(len(model), dice.randrange(2)))
            times: dict[str, datetime] = {}
            if dice.random() < 0.3:
                times["valid_from"] = start["from"] + dice.randrange(20) * DAY
            if dice.random() < 0.3:
                times["valid_until"] = max(times.get("valid_from", DAWN), start["until"]) + dice.randrange(1, 20) * DAY
            memory_id = await backend.store(agent, said(f"note {day} {number}", *replaced, **times))
            model[memory_id] = [
                clock.now, times.get("valid_from", DAWN), times.get("valid_until", never), never,
            ]  # fmt: skip
            for old in replaced:
                model[old][3] = clock.now
    clock.now = NOW
    for at in [DAWN + hours * timedelta(hours=1) for hours in range(0, 24 * 60, 17)]:
        wanted = {
            key for key, (made, begins, ends, replaced_at) in model.items()
            if made <= at and begins <= at < ends and at < replaced_at
        }  # fmt: skip
        assert await holding(backend, agent, at) == wanted, at
    assert await holding(backend, agent, None) == set(model)


async def test_what_is_stored_again_word_for_word_is_stated_then(backend: WorkerBackend, clock: StoppedClock) -> None:
    agent = new_agent()

    def tagged(*tags: str) -> MemoryStoreRequest:
        return said("Ada lives in Berlin").model_copy(update={"metadata": MemoryMetadata(tags=tags)})

    berlin = await backend.store(agent, tagged("first"))
    clock.now += DAY
    munich = await backend.store(agent, said("Ada lives in Munich"))
    question = MemoryQuery(text="Where does Ada live: Munich or Berlin?")
    if isinstance(backend, HybridBackend):
        assert [each.id for each in await backend.retrieve(agent, question)] == [munich, berlin]
    clock.now += DAY
    assert await backend.store(agent, tagged("again")) == berlin
    (record,) = await backend.get_many(agent, [berlin])
    entry = record.entry
    assert (entry.created_at, entry.stated_at, entry.metadata.tags) == (NOW, NOW + 2 * DAY, ("first", "again"))
    if isinstance(backend, HybridBackend):
        assert [each.id for each in await backend.retrieve(agent, question)] == [berlin, munich]
        then = await backend.retrieve(agent, question.model_copy(update={"as_of": NOW + DAY}))
        assert {each.id: each.stated_at for each in then} == {berlin: None, munich: None}
    # A redelivery says nothing, and neither does another agent.
    late = entry.model_copy(update={"metadata": MemoryMetadata(tags=("late",)), "stated_at": None})
    for owner, at in ((agent, NOW), (agent, NOW + 2 * DAY), (new_agent(), NOW + 9 * DAY)):
        await backend.store_many([MemoryRecord(entry=late.model_copy(update={"agent_id": owner, "created_at": at}))])
    assert await backend.get_many(agent, [berlin]) == (record,)
    # What was removed and is brought back keeps it.
    await backend.delete_many(agent, [berlin])
    await backend.store_many([record])
    assert await backend.get_many(agent, [berlin]) == (record,)


async def test_what_was_replaced_and_is_stored_again_holds_again(backend: WorkerBackend, clock: StoppedClock) -> None:
    agent = new_agent()
    berlin = await backend.store(agent, said("Ada lives in Berlin"))
    clock.now += DAY
    moved = said("Ada lives in Munich").model_copy(update={"supersedes": (berlin,)})
    munich = await backend.store(agent, moved)
    assert [each.entry.superseded_by for each in await backend.get_many(agent, [berlin])] == [munich]
    replaced_at = clock.now
    clock.now += DAY
    assert await backend.store(agent, said("Ada lives in Berlin")) == berlin
    # A late redelivery of what replaced it changes nothing.
    (successor,) = await backend.get_many(agent, [munich])
    given = MemoryRecord(entry=successor.entry, extra=successor.extra)
    await backend.store_many([given])
    await mark_superseded(backend, given)
    found = {each.entry.id: each.entry for each in await backend.get_many(agent, [berlin, munich])}
    assert found[berlin].superseded_by is None
    assert SUPERSEDED_TAG not in found[berlin].metadata.tags
    assert found[berlin].stated_at == replaced_at + DAY
    if isinstance(backend, HybridBackend):
        question = MemoryQuery(text="Where does Ada live: Munich or Berlin?")
        assert [each.id for each in await backend.retrieve(agent, question)] == [berlin, munich]
