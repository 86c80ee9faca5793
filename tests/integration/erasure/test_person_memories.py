"""A person's memories that mem0's calls have stored with an agent go with the person, and those of others stay."""

from datetime import timedelta
from typing import Any

import pytest
from support.erasure_world import POLICY, ErasureWorld, letter
from support.ledger_records import COMPANY
from support.memories import DAWN, copied, record
from support.present import present
from support.store_items import item

from memcore.backends.deletion import Deletion
from memcore.erasure.probe import search_files
from memcore.erasure.receipt import ErasureReceipt, verified
from memcore.jobs import Deferred, Done, Outcome, RecordedQuery, StoreItem, StorePayload
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState, packed_summary
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.models.archival import ArchivalMode
from memcore.models.memory import MemoryCategory
from memcore.models.memory_test import MemoryTest
from memcore.records import MemoryRecord, Where
from memcore.wiki.exporter import WikiExporter

PEOPLE = ("ann", "eve")


def said(world: ErasureWorld, person: str, **given: Any) -> StoreItem:
    """Return a memory of a person as the mem0-compatible HTTP API stores it."""
    own = {"mem0": {"user_id": person}}
    return item(world.secret(person), namespace=f"user:{person}", attributes=own, sent_at=world.clock(), **given)


def of_person(world: ErasureWorld, person: str) -> MemoryRecord:
    """Return a memory as mem0's own Memory files it, in the namespace of an earlier release."""
    made = record("ada", world.secret(person))
    made.extra["user_id"] = person
    return made


async def filled(world: ErasureWorld, person: str) -> None:
    """Put the person's words into every place that holds memories."""
    ledger = world.ledger
    items = [said(world, person, key=f"{person}-{n}" if n < 3 else None) for n in range(10)]
    await world.ingestor().write(items)
    await world.ingestor().write([said(world, person, key=f"{person}-1")])
    await world.backend.store_many([of_person(world, person) for _ in range(3)])
    deletion = Deletion.over(ledger, company=COMPANY, clock=world.clock)
    await deletion.delete_many(world.backend, "ada", [each.id for each in items[3:6]])
    for archived in (of_person(world, person), of_person(world, person)):
        ledger.archive.put(COMPANY, archived, mode=ArchivalMode.EXTRACTIVE, archived_at=world.clock())
        await world.backend.index_archived("ada", [copied(archived, items[7].id)])
    question = RecordedQuery(
        agent_id="ada", question=world.secret(person), memory_ids=(items[7].id,), asked_at=world.clock()
    )
    ledger.recorded_queries.record(COMPANY, [question])
    asked = {"agent": "ada", "question": world.secret(person)}
    named: list[dict[str, Any]] = [
        {"name": world.secret(person), "finds": [{"text": items[7].request.content}]},
        {"name": f"of {person}", "finds": [{"id": items[4].id}]},
        {"name": f"by pattern of {person}", "finds": [{"pattern": f"?{items[7].request.content[1:]}"}]},
        {"name": f"by key of {person}", "order": [{"key": f"{person}-2"}]},
        {
            "name": f"facts of {person}",
            "person": person,
            "facts": [{"predicate": "SAYS", "value": world.secret(person)}],
        },
    ]
    tests = [MemoryTest.model_validate(asked | each) for each in named]
    ledger.memory_tests.register(COMPANY, tests, notes=[])
    judged = ConsolidationGroup(
        company=COMPANY,
        run_id="r",
        agent_id="ada",
        category=MemoryCategory.SEMANTIC,
        strategy=f"condense {person}",
        state=GroupState.REFUSED,
        source_ids=(items[7].id, items[9].id),
        tests=(tests[0].name, "another"),
    )
    ledger.consolidation_groups.note([judged])
    group = ConsolidationGroup(
        company=COMPANY,
        run_id="r",
        agent_id="ada",
        category=MemoryCategory.SEMANTIC,
        strategy="condense",
        state=GroupState.PROPOSED,
        source_ids=(items[7].id, items[8].id),
        body=packed_summary(of_person(world, person)),
    )
    ledger.consolidation_groups.note([group])
    ledger.dead_letters.put(letter(f"letter-{person}", StorePayload(company=COMPANY, items=(said(world, person),))))


async def erased(world: ErasureWorld, **given: Any) -> Outcome:
    outcome = await world.service().run(world.asked(subject="user:ann"), **given)
    assert isinstance(outcome, Done), outcome
    return outcome


def receipt_of(world: ErasureWorld) -> ErasureReceipt:
    (erasure,) = world.ledger.erasures.page(COMPANY)
    return verified(present(erasure.receipt), world.ledger.signing_keys.all(), ErasureReceipt)


def found(world: ErasureWorld, person: str) -> set[int]:
    return {hit.probe for hit in search_files(world.settings.home, world.secrets[person])}


async def test_no_byte_of_the_person_is_left_and_all_of_the_others_and_the_agents_own(world: ErasureWorld) -> None:
    own = item(world.secret("agent"), sent_at=world.clock())
    await world.ingestor().write([own])
    for person in PEOPLE:
        await filled(world, person)
    wiki = POLICY.memory.consolidation.wiki_export
    await WikiExporter(
        world.backend, world.ledger, wiki, home=world.settings.home, company=COMPANY, clock=world.clock
    ).export(["ada"])
    everything = {person: set(range(1, len(world.secrets[person]) + 1)) for person in PEOPLE}
    assert {person: found(world, person) for person in PEOPLE} == everything

    await erased(world)

    assert found(world, "ann") == set()
    assert found(world, "eve") == everything["eve"]
    assert found(world, "agent") == {1}
    receipt = receipt_of(world)
    assert receipt.rewritten == ("ledger and journal", "broker", "history", "store")
    assert {name for name, place in receipt.places.items() if place.found} >= {
        "store", "history", "archive", "booking_records", "memory_keys", "recorded_queries", "consolidation_groups",
        "dead_letters", "wiki", "memory_tests",
    }  # fmt: skip
    assert all(place.left == 0 for place in receipt.places.values())
    assert own.id in {each.entry.id for each in (await world.backend.scan(Where(agent_id="ada"))).records}


async def test_a_user_with_the_agents_name_is_not_the_agent(world: ErasureWorld) -> None:
    await world.ingestor().write([item(world.secret("agent"), sent_at=world.clock())])
    named_so = item(
        world.secret("ada"), namespace="user:ada", attributes={"mem0": {"user_id": "ada"}}, sent_at=world.clock()
    )
    await world.ingestor().write([named_so])
    assert isinstance(await world.service().run(world.asked(subject="user:ada")), Done)
    assert (found(world, "ada"), found(world, "agent")) == (set(), {1})


async def test_it_waits_for_the_agents_run_which_may_write_what_it_has_read(world: ErasureWorld) -> None:
    await world.ingestor().write([said(world, "ann")])
    run = present(world.ledger.runs.create(NewRun(company=COMPANY, agent_id="ada", planned_at=world.clock())))
    service, erasure_id = world.service(), world.asked(subject="user:ann")
    waits = await service.run(erasure_id)
    assert waits == Deferred(reason=f"run {run.run_id} of the agent has not ended")
    claimed = present(world.ledger.runs.claim(COMPANY, run.run_id, lease=timedelta(minutes=1)))
    world.ledger.runs.finish(COMPANY, run.run_id, present(claimed.token), state=WorkState.DONE, counts={})
    world.clock.now += LEASE_LENGTH
    assert isinstance(await service.run(erasure_id), Done)
    assert found(world, "ann") == set()


@pytest.mark.parametrize("person", ["user:nobody", "session:none"])
async def test_a_person_without_memories_costs_the_agent_nothing(world: ErasureWorld, person: str) -> None:
    await filled(world, "ann")
    before = await world.memories("ada")
    assert isinstance(await world.service().run(world.asked(subject=person)), Done)
    assert await world.memories("ada") == before
    receipt = receipt_of(world)
    assert (receipt.rewritten, receipt.checkpoints) == (("ledger and journal", "broker"), ())
    assert receipt.finished_at > DAWN
