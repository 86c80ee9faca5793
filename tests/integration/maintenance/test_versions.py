"""What is changed or forgotten one by one: journaled, explained, undone, and never lost by a crash."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.fault_injection import Crash, Faults
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    uid,
)
from support.present import present

from memcore.config.maintenance import ConsolidationConfig
from memcore.config.policy import Policy
from memcore.errors import MemoryConflictError, MemoryConnectionError, MemoryInputError, MemoryNotFoundError
from memcore.maintenance.provenance import MemoryState, trace_memory
from memcore.memories import Memories
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryStoreRequest
from memcore.records import VALIDITY_KEY, MemoryRecord, SearchNotes, Where

LOSSLESS = ConsolidationConfig()


def memories_of(world: MaintenanceFixture, faults: Faults | None = None) -> Memories:
    backend: Any = world.backend if faults is None else faults.backend(world.backend)
    ledger: Any = world.ledger if faults is None else faults.ledger(world.ledger)
    return Memories(backend, ledger, company=COMPANY, policy=Policy(), clock=world.clock)


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture(LOSSLESS)


async def test_an_update_is_a_new_version_that_the_old_id_leads_to(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    memories = memories_of(world)
    old = present(await memories.get(AGENT, uid(1)))

    new = await memories.update(AGENT, uid(1), content="a new text", attributes={"by": "ada", "tries": 2})

    assert new.content == "a new text"
    assert dict(new.attributes) == {"by": "ada", "tries": 2}
    assert (new.category, new.namespace, new.metadata) == (old.category, old.namespace, old.metadata)
    assert new.created_at == new.updated_at
    assert new.created_at > old.created_at
    assert await memories.get(AGENT, uid(1)) == await memories.get(AGENT, new.id)
    assert set(await world.live()) == {new.id}
    # The same again is no change, under either id.
    assert (await memories.update(AGENT, uid(1), content="a new text")).id == new.id
    kept = await memories.update(AGENT, new.id, tags=["b"])
    assert kept.created_at == new.created_at
    events = await memories.history(AGENT, new.id)
    assert [(each.event, each.content) for each in events] == [
        ("ADD", old.content),
        ("UPDATE", "a new text"),
        ("UPDATE", "a new text"),
    ]
    explained = await trace_memory(
        new.id, backend=world.backend, ledger=world.ledger, company=COMPANY, journal_days=7, agent_id=AGENT
    )
    assert uid(1) in explained.memory.made_of
    explained = await trace_memory(uid(1), backend=world.backend, ledger=world.ledger, company=COMPANY, journal_days=7)
    successor = explained.memory.made_into[0]
    assert (explained.memory.state, explained.memory.replaced_by) == (MemoryState.REPLACED, (successor,))
    assert explained.find(successor) is not None
    assert explained.summaries() == (successor, kept.id)
    await world.check_balance()


async def test_an_update_says_when_a_memory_holds(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    memories, first, last = memories_of(world), world.clock(), world.clock() + timedelta(days=9)

    dated = await memories.update(AGENT, uid(1), valid_from=first, valid_until=last)
    kept = await memories.update(AGENT, dated.id, tags=["b"])
    assert (kept.valid_from, kept.valid_until, kept.created_at) == (first, last, dated.created_at)
    assert (await memories.update(AGENT, kept.id, valid_until=last)).id == kept.id
    for wrong in ({"valid_from": last}, {"valid_from": last, "valid_until": first}):
        with pytest.raises(MemoryInputError, match="valid_until: must lie after valid_from"):
            await memories.update(AGENT, kept.id, **wrong)
    opened = await memories.update(AGENT, kept.id, valid_from=None)
    assert (opened.valid_from, opened.valid_until) == (None, last)
    always = await memories.update(AGENT, opened.id, valid_until=None)
    assert VALIDITY_KEY not in (await world.live())[always.id].extra
    assert present(await memories.get(AGENT, always.id)).valid_until is None


async def test_a_corrected_text_has_no_search_notes_of_the_old_one(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    await world.backend.set_search_notes(AGENT, {uid(1): SearchNotes(by="model/1", texts=("heating",))})
    memories = memories_of(world)

    tagged = await memories.update(AGENT, uid(1), tags=["b"])
    assert (await world.live())[tagged.id].entry.search_notes == ("heating",)

    corrected = await memories.update(AGENT, tagged.id, content="The roof leaks.")
    record = (await world.live())[corrected.id]
    assert (record.entry.search_notes, record.noted_by) == ((), None)


async def test_updates_of_one_memory_at_once_are_all_applied(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    memories = memories_of(world)

    made = await asyncio.gather(
        *(memories.update(AGENT, uid(1), content=f"text {number}", expected="*") for number in range(5))
    )

    assert [each.content for each in made] == [f"text {number}" for number in range(5)]
    events = await memories.history(AGENT, uid(1))
    assert sorted(str(each.content) for each in events[1:]) == [f"text {number}" for number in range(5)]
    last = present(await memories.get(AGENT, uid(1)))
    assert set(await world.live()) == {last.id}
    await world.check_balance()


async def test_only_the_version_that_was_read_is_changed(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    memories = memories_of(world)
    made = await asyncio.gather(
        *(memories.update(AGENT, uid(1), content=f"text {number}") for number in range(5)), return_exceptions=True
    )
    (new,) = [each for each in made if isinstance(each, MemoryEntry)]
    refused = [each for each in made if isinstance(each, MemoryConflictError)]
    assert len(refused) == 4
    # Today's text is another one: neither the old id nor a wrong version changes or forgets it.
    for call in (
        memories.update(AGENT, uid(1), content="of the old text"),
        memories.update(AGENT, uid(1), content="of the old text", expected=uid(1)),
        memories.update(AGENT, new.id, content="of the old text", expected=uid(7)),
        memories.forget(AGENT, new.id, expected=uid(1)),
    ):
        with pytest.raises(MemoryConflictError):
            await call
    for wrong in ([new.id, uid(1)], None):
        with pytest.raises(MemoryInputError, match="expected"):
            await memories.forget(AGENT, wrong, everything=wrong is None, expected=new.id)
    assert set(await world.live()) == {new.id}
    later = await memories.update(AGENT, uid(1), content="a second text", expected=new.id)
    last = await memories.update(AGENT, uid(1), tags=["b"], expected="*")
    assert (await memories.forget(AGENT, uid(1), expected=last.id)).forgotten == (last.id,)
    assert later.content == last.content
    await world.check_balance()


@pytest.mark.parametrize("given", [{"memory_ids": uid(1)}, {"everything": True}, {"tags": ["a"]}])
async def test_what_is_changed_while_it_is_forgotten_goes_as_it_is_then(world: MaintenanceFixture, given: Any) -> None:
    await world.store([memory(1, tags=("a",)), memory(2)])
    memories, other = memories_of(world), memories_of(world)
    delete_many, edited = memories._changes.delete_many, list[str]()

    async def edited_first(*args: Any, **how: Any) -> Any:
        if not edited:
            edited.append((await other.update(AGENT, uid(1), content="edited at the same moment")).id)
        return await delete_many(*args, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memories._changes, "delete_many", edited_first)
        receipt = await memories.forget(AGENT, **given)

    assert edited[0] in receipt.forgotten
    run = present(world.ledger.runs.get(COMPANY, receipt.run_id or ""))
    assert run.counts["removed"] == len(receipt.forgotten)
    assert await memories.get(AGENT, uid(1)) is None
    await world.check_balance()


async def test_a_forget_that_gives_up_names_the_run_of_what_went_before(world: MaintenanceFixture) -> None:
    await world.store([memory(1), memory(2)])
    memories, other = memories_of(world), memories_of(world)
    delete_many = memories._changes.delete_many

    async def edited_first(*args: Any, **how: Any) -> Any:
        await other.update(AGENT, uid(1), content=f"edited at {world.clock()}", expected="*")
        return await delete_many(*args, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memories._changes, "delete_many", edited_first)
        with pytest.raises(MemoryConflictError, match=r"changed at the same moment.*; run \S+ took 1 before") as caught:
            await memories.forget(AGENT, [uid(1), uid(2)])
    named = str(caught.value).split()[-4]
    await world.undo(named)
    assert uid(2) in await world.live()
    await world.check_balance()


async def test_a_conflict_names_the_run_of_earlier_pages(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.store([memory(1), memory(2)])
    monkeypatch.setattr("memcore.backends.deletion.MAX_PAGE", 1)
    memories = memories_of(world)
    decide, calls = memories._changes._decide, list[Any]()

    async def refused_once(*args: Any, **how: Any) -> Any:
        calls.append(args)
        if len(calls) > 1:
            raise MemoryConflictError("a run is removing it now")
        return await decide(*args, **how)

    monkeypatch.setattr(memories._changes, "_decide", refused_once)
    with pytest.raises(MemoryConflictError, match=r"now; run \S+ took 1 before") as caught:
        await memories.forget(AGENT, [uid(1), uid(2)])
    assert world.ledger.runs.get(COMPANY, str(caught.value).split()[-4]) is not None


class Away(Faults):
    """Loses the connection at a call, and at all that follow where it ``lasts``."""

    def __init__(self, at: int, *, is_after: bool, lasts: bool) -> None:
        def lost() -> None:
            raise MemoryConnectionError("the ledger cannot be reached", part="ledger")

        super().__init__(at, strike=lost, is_after=is_after)
        self._first, self._lasts = at, lasts

    def counted(self, name: str) -> bool:
        return super().counted(name) or (self._lasts and len(self.calls) > self._first)


@pytest.mark.parametrize("lasts", [False, True])
@pytest.mark.parametrize("is_after", [False, True])
async def test_a_lost_connection_names_the_run_of_what_was_done_or_begun(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch, *, is_after: bool, lasts: bool
) -> None:
    world = make_maintenance_fixture(LOSSLESS)
    monkeypatch.setattr("memcore.backends.deletion.MAX_PAGE", 1)
    counted = Faults()
    await world.store([memory(1), memory(2)])
    await memories_of(world, counted).forget(AGENT, [uid(1), uid(2)])
    named_runs = 0
    for point, call in enumerate(counted.calls):
        numbers = (2 * point + 3, 2 * point + 4)
        wanted = [uid(number) for number in numbers]
        await world.store([memory(number) for number in numbers])
        with pytest.raises(MemoryConnectionError, match="the ledger cannot be reached") as caught:
            await memories_of(world, Away(point, is_after=is_after, lasts=lasts)).forget(AGENT, wanted)
        assert caught.value.part == "ledger"
        named = re.search(r"; run (\S+) took (\d) before", str(caught.value))
        live = await world.live()
        if all(each in live for each in wanted) and not world.ledger.journal.open_of(COMPANY, AGENT):
            continue
        assert named is not None, (point, call)
        assert int(named[2]) <= sum(each not in live for each in wanted)
        named_runs += 1
        if point % 2:
            # The same again goes on where the run stopped.
            await memories_of(world).forget(AGENT, wanted)
            assert not {*wanted} & {*await world.live()}
            # What is gone needs the end of its entry alone.
            await world.maintenance_run()
        else:
            await world.undo(named[1])
            assert {*wanted} <= {*await world.live()}
        await world.check_balance()
    assert named_runs > len(counted.calls) // 2


async def test_what_was_merged_with_its_copies_is_no_other_version(world: MaintenanceFixture) -> None:
    await world.store([memory(1, content="the lift is blue"), memory(2, content="The lift is blue.", days_old=20)])
    await world.maintenance_run()
    memories = memories_of(world)
    one = present(await memories.get(AGENT, uid(1)))
    assert one.id not in {uid(1), uid(2)}
    changed = await memories.update(AGENT, uid(1), content="the lift is red")
    assert set(await world.live()) == {changed.id}


async def test_of_many_first_versions_under_a_key_one_is_written(world: MaintenanceFixture) -> None:
    await world.store([])
    memories = memories_of(world)

    async def put(text: str, key: str | None = "k") -> MemoryEntry:
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text, key=key)
        return await memories.put(AGENT, request, only_new=True)

    for round_ in range(3):
        made = await asyncio.gather(*(put(f"text {round_} {each}") for each in range(8)), return_exceptions=True)
        won = [each for each in made if isinstance(each, MemoryEntry)]
        assert sum(isinstance(each, MemoryConflictError) for each in made) == len(made) - len(won)
        # Each may have met the others' beginnings; whoever tries again finds out.
        if not won:
            won = [await put("again")]
        assert set(await world.live()) == {won[0].id}
        assert await memories.get_by_key(AGENT, "k") == won[0]
        with pytest.raises(MemoryConflictError):
            await put("another")
        # Once it is gone, the key is free.
        await memories.forget(AGENT, won[0].id)
    with pytest.raises(MemoryInputError, match="key"):
        await put("without", key=None)


async def test_an_update_is_undone_by_its_run(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    memories = memories_of(world)
    before = await world.snapshot()
    new = await memories.update(AGENT, uid(1), content="a mistake")
    (run,) = [each for each in world.ledger.runs.list(COMPANY) if each.kind == "update"]
    assert run.counts == {"updated": 1}

    await world.undo(run.run_id)

    assert await world.snapshot() == before
    there = present(await memories.get(AGENT, new.id))
    assert there.id == uid(1)
    again = await memories.update(AGENT, uid(1), content="a second try")
    assert (await memories.get(AGENT, uid(1))) == again
    await world.check_balance()


async def test_what_is_forgotten_comes_back_with_one_undo(world: MaintenanceFixture) -> None:
    await world.store(memory(number) for number in range(1, 8))
    memories = memories_of(world)
    before = await world.snapshot()

    receipt = await memories.forget(AGENT, [uid(1), uid(2), uid(99)])
    assert set(receipt.forgotten) == {uid(1), uid(2)}
    assert await memories.get(AGENT, uid(1)) is None
    assert [each.event for each in await memories.history(AGENT, uid(1))] == ["ADD", "DELETE"]
    await world.undo(present(receipt.run_id))
    assert await world.snapshot() == before
    everything = await memories.forget(AGENT, everything=True)
    assert len(everything.forgotten) == 7
    assert await memories.count(AGENT) == 0
    assert (await memories.forget(AGENT, everything=True)).run_id is None
    await world.check_balance()


async def test_it_is_forgotten_by_filter_and_never_by_accident(world: MaintenanceFixture) -> None:
    await world.backend.connect()
    memories = memories_of(world)
    for place, city in enumerate(["Berlin", "Lisbon", "Berlin"]):
        request = MemoryStoreRequest(
            category=MemoryCategory.SEMANTIC,
            content=f"note {place}",
            namespace=f"n{place}",
            attributes={"city": city, "at": {"floor": place}},
        )
        await memories.put(AGENT, request)
    with pytest.raises(MemoryInputError, match="memory_ids"):
        await memories.forget(AGENT)
    with pytest.raises(MemoryInputError, match="memory_ids"):
        await memories.forget(AGENT, [uid(1)], everything=True)
    with pytest.raises(MemoryInputError, match="colour"):
        await memories.forget(AGENT, colour="red")  # type: ignore[call-arg]
    assert await memories.namespaces(AGENT) == ("n0", "n1", "n2")
    found = await memories.list(AGENT, attributes={"city": "Berlin", "at.floor": 2})
    assert [each.content for each in found.entries] == ["note 2"]
    gone = await memories.forget(AGENT, attributes={"city": "Berlin"})
    assert len(gone.forgotten) == 2
    assert [each.content for each in (await memories.list(AGENT)).entries] == ["note 1"]


async def test_a_foreign_id_changes_and_shows_nothing(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    memories = memories_of(world)
    new = await memories.update(AGENT, uid(1), content="new")
    for memory_id in (uid(1), new.id, "no uuid", uid(5)):
        assert await memories.get("mallory", memory_id) is None
        assert (await memories.forget("mallory", memory_id)).forgotten == ()
        with pytest.raises(MemoryNotFoundError):
            await memories.update("mallory", memory_id, content="mine")
        with pytest.raises(MemoryNotFoundError):
            await memories.history("mallory", memory_id)
    assert set(await world.live()) == {new.id}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"content": " "}, "content"),
        ({"content": "x" * 70_000}, "content"),
        ({"confidence": 2}, "confidence"),
        ({"category": "nonsense"}, "category"),
        ({"attributes": {"a b": 1}}, "attributes"),
        ({"attributes": {"a": "x" * 9_000}}, "attributes"),
        ({"expires_at": "never"}, "expires_at"),
        ({"owner": "me"}, "owner"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_written(
    world: MaintenanceFixture, fields: dict[str, Any], named: str
) -> None:
    await world.store([memory(1)])
    with pytest.raises(MemoryInputError) as caught:
        await memories_of(world).update(AGENT, uid(1), **fields)
    assert named in caught.value.field
    assert set(await world.live()) == {uid(1)}
    assert world.ledger.runs.list(COMPANY) == ()


async def test_a_crash_at_any_call_leaves_one_version(world: MaintenanceFixture) -> None:
    counted = Faults()
    await world.store([memory(1)])
    await memories_of(world, counted).update(AGENT, uid(1), content="trial")
    assert len(counted.calls) >= 10, "the scenario has become too small to mean anything"
    memories = memories_of(world)
    for point, name in enumerate(counted.calls):
        number = point + 2
        await world.store([memory(number)])
        with pytest.raises(Crash):
            await memories_of(world, Faults(point)).update(AGENT, uid(number), content=f"text {point}")
        assert await memories.get(AGENT, uid(number)) is not None, name
        new = await memories.update(AGENT, uid(number), content=f"text {point}")
        assert await memories.get(AGENT, uid(number)) == await memories.get(AGENT, new.id), name
        page = await world.backend.scan(Where(agent_id=AGENT, ids=frozenset({uid(number)})))
        assert page.records == (), name
    await world.maintenance_run()
    await world.check_balance()


def described(number: int, **attributes: str) -> MemoryRecord:
    return replace(memory(number, content="The kettle is in the cupboard."), extra={"attributes": attributes})


async def test_only_repetitions_with_equal_attributes_become_one_and_their_ids_lead_to_it(
    world: MaintenanceFixture,
) -> None:
    await world.store([described(1, city="Berlin"), described(2, city="Berlin"), described(3, city="Lisbon")])
    await world.maintenance_run()

    memories = memories_of(world)
    one, two = [await memories.get(AGENT, uid(number)) for number in (1, 2)]
    assert one is not None
    assert one == two
    assert dict(one.attributes) == {"city": "Berlin"}
    assert set(await world.live()) == {one.id, uid(3)}


async def test_a_lossy_merge_leaves_what_has_attributes_and_its_sources_lead_to_no_summary(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=CONDENSE, max_removed_fraction=1.0, group_max_entries=3)
    )
    plain = [memory(number, days_old=60 - number) for number in range(1, 6)]
    await world.store([*plain, *(replace(each, extra={"attributes": {"n": 1}}) for each in map(memory, (7, 8, 9)))])
    await world.maintenance_run()

    live = set(await world.live())
    assert {uid(7), uid(8), uid(9)} <= live
    gone = [each.entry.id for each in plain if each.entry.id not in live]
    assert gone
    assert [await memories_of(world).get(AGENT, memory_id) for memory_id in gone] == [None] * len(gone)
