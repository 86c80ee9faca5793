"""The default strategy: what is said again becomes one memory, word for word, and nothing else changes."""

import random
from datetime import timedelta
from typing import Any

import pytest
from support.fault_injection import Crash
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    comparable,
    memory,
    uid,
)

from memcore import ids
from memcore.backends.protocol import MAX_PAGE
from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType
from memcore.jobs import Done, Use
from memcore.maintenance.provenance import MemoryState, trace_memory
from memcore.models.memory import CONSOLIDATED_TAG, MAX_TAGS, MemoryCategory
from memcore.records import LOSSLESS_KEY, Lineage, MemoryRecord, Where
from memcore.retrieval.repetitions import repeats

SEMANTIC, SOCIAL = MemoryCategory.SEMANTIC, MemoryCategory.SOCIAL
FACT = "Mia is allergic to peanuts"


def made(make: MakeMaintenanceFixture, **more: Any) -> MaintenanceFixture:
    return make(ConsolidationConfig(**more))


async def only(world: MaintenanceFixture) -> MemoryRecord:
    (record,) = (await world.live()).values()
    return record


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return made(make_maintenance_fixture)


async def test_copies_become_one_with_all_that_was_known(world: MaintenanceFixture) -> None:
    await world.store(
        [
            memory(1, content=FACT, days_old=30, category=SOCIAL, tags=["food"], confidence=0.9,
                   lineage=Lineage(session_id="s", project_id="p")),
            memory(2, content=f"Reminder: {FACT}!", days_old=20, category=SOCIAL, tags=["mia"], with_vectors=True,
                   confidence=0.4, lineage=Lineage(session_id="s", project_id="p")),
            memory(3, content=FACT.upper(), days_old=10, category=SOCIAL, tags=["food", "kitchen"], confidence=0.5,
                   lineage=Lineage(session_id="t", project_id="p")),
        ]
    )  # fmt: skip

    plan = await world.service().plan(AGENT)
    run = await world.maintenance_run()

    one = await only(world)
    assert one.entry.content == f"Reminder: {FACT}!"
    assert one.entry.created_at == world.originals[uid(3)].entry.created_at
    assert one.entry.metadata.tags == ("food", "mia", "kitchen")
    assert one.entry.metadata.confidence == 0.9
    assert one.entry.metadata.source == "test"
    assert one.lineage == Lineage(project_id="p", summary_of=(uid(1), uid(2), uid(3)), depth=1)
    assert one.extra == {"kept": 3, LOSSLESS_KEY: True}
    theirs = world.originals[uid(2)].vectors
    assert one.vectors is not None
    assert theirs is not None
    assert one.vectors.dense.tolist() == theirs.dense.tolist()
    assert run.counts["consolidated"] == plan.removed == 3
    assert run.counts["summaries"] == plan.summaries == 1
    assert plan.archived == world.ledger.archive.archived_by(run.run_id) == 3
    await world.check_balance()

    await world.undo(run.run_id)
    assert await world.snapshot() == {key: comparable(each) for key, each in world.originals.items()}


async def test_a_second_run_changes_nothing_and_a_later_copy_joins(world: MaintenanceFixture) -> None:
    await world.store(memory(n, content=FACT, days_old=20 - n, category=SEMANTIC) for n in range(1, 4))
    await world.store(memory(10 + n, content=f"Room {n} is painted", category=SEMANTIC) for n in range(5))
    await world.maintenance_run()
    before = await world.snapshot()
    assert len(before) == 6

    again = await world.maintenance_run()
    assert await world.snapshot() == before
    assert not any(count for name, count in again.counts.items() if name != "planned")

    await world.store([memory(9, content=f"{FACT} (again)", days_old=8, category=SEMANTIC)])
    await world.maintenance_run()
    (one,) = [record for record in (await world.live()).values() if FACT in record.entry.content]
    assert one.entry.content == f"{FACT} (again)"
    assert CONSOLIDATED_TAG not in one.entry.metadata.tags
    assert len(before) == len(await world.live())
    await world.check_balance()


async def test_what_cannot_stand_for_each_other_stays(world: MaintenanceFixture) -> None:
    many = [f"tag {n}" for n in range(MAX_TAGS)]
    await world.store(
        [
            memory(1, content=FACT, category=SEMANTIC),
            memory(2, content=FACT, category=SOCIAL),
            memory(3, content=FACT, category=SEMANTIC, namespace="other"),
            memory(4, content=FACT, category=SEMANTIC, lineage=Lineage(project_id="p")),
            memory(5, content=FACT, category=SEMANTIC, expires_in_days=5),
            memory(6, content=FACT, category=SEMANTIC, expires_in_days=6),
            memory(7, content=FACT, category=SEMANTIC, days_old=3),
            memory(8, content=FACT, category=SEMANTIC, tags=["pinned"]),
            memory(9, content=FACT, category=MemoryCategory.WORKING, days_old=0),
            memory(10, content="The cellar is dry", category=SEMANTIC, tags=many),
            memory(11, content="The cellar is dry", category=SEMANTIC, tags=["one more"]),
            memory(12, content=f"Maybe {FACT}", category=SEMANTIC),
            memory(13, content=FACT.replace("peanuts", "walnuts"), category=SEMANTIC),
        ]
    )
    before = await world.snapshot()

    await world.maintenance_run()

    assert await world.snapshot() == before


async def test_copies_that_expire_together_are_one_and_expire_then(world: MaintenanceFixture) -> None:
    await world.store(memory(n, content=FACT, category=SEMANTIC, expires_in_days=5) for n in (1, 2))
    await world.maintenance_run()
    assert (await only(world)).entry.expires_at == world.originals[uid(1)].entry.expires_at


async def test_when_the_fullest_is_pinned_meanwhile_the_others_are_judged_anew(world: MaintenanceFixture) -> None:
    short, other = "Paul and Ines share their car on weekends", "Paul and Ines share small car on weekends"
    full = "Paul and Ines share their small car on weekends"
    assert repeats(full, short)
    assert repeats(full, other)
    assert not repeats(short, other)
    await world.store(memory(n, content=text, category=SOCIAL) for n, text in enumerate((short, other, full)))
    claim = world.backend.claim

    async def pins_first(where: Where, token: str) -> int:
        records = await world.backend.get_many(AGENT, [uid(2)])
        await world.backend.delete_many(AGENT, [uid(2)])
        (record,) = records
        metadata = record.entry.metadata.model_copy(update={"tags": ("pinned",)})
        entry = record.entry.model_copy(update={"metadata": metadata})
        await world.backend.store_many([MemoryRecord(entry=entry, extra=record.extra)])
        return await claim(where, token)

    world.backend.claim = pins_first  # type: ignore[method-assign]  # a person pins it at this moment
    outcome = await world.service().run(world.plan_run().run_id)

    assert isinstance(outcome, Done)
    assert set(await world.live()) == {uid(0), uid(1), uid(2)}


async def test_a_memory_with_very_many_copies_becomes_one_in_the_end(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = made(make_maintenance_fixture, max_removed_fraction=1.0)
    await world.store(memory(n, content=FACT, days_old=20, category=SEMANTIC) for n in range(MAX_PAGE + 20))
    await world.maintenance_run()
    assert len(await world.live()) == 2
    await world.maintenance_run()
    assert (await only(world)).entry.content == FACT
    await world.check_balance()


async def test_the_history_of_a_copy_says_what_it_became(world: MaintenanceFixture) -> None:
    await world.store(memory(n, content=FACT, category=SEMANTIC) for n in (1, 2))
    await world.maintenance_run()
    one = await only(world)

    replaced, kept = [
        await trace_memory(
            memory_id,
            backend=world.backend,
            ledger=world.ledger,
            company=COMPANY,
            journal_days=world.policy.journal_days,
            agent_id=AGENT,
            with_text=True,
        )
        for memory_id in (uid(1), one.entry.id)
    ]

    assert replaced.memory.state is MemoryState.REPLACED
    assert replaced.memory.replaced_by == (one.entry.id,)
    assert kept.memory.state is MemoryState.LIVE
    assert kept.memory.text == FACT


async def test_uses_go_with_the_fact(world: MaintenanceFixture) -> None:
    await world.store(memory(n, content=FACT, category=SEMANTIC) for n in (1, 2, 3))
    at = world.clock.at - timedelta(days=1)
    uses = [Use(agent_id=AGENT, memory_id=uid(n), uses=n, last_used_at=at - timedelta(hours=n)) for n in (1, 2)]
    world.ledger.uses.count(COMPANY, ids.new_id(), uses)

    await world.maintenance_run()

    one = (await only(world)).entry.id
    counted = world.ledger.uses.of(COMPANY, AGENT, [one, uid(1), uid(2)])
    assert {key: (use.uses, use.last_used_at) for key, use in counted.items()} == {one: (3, at - timedelta(hours=1))}


async def test_a_crash_at_any_write_leaves_one_and_loses_none(world: MaintenanceFixture) -> None:
    await world.store(memory(n, content=FACT, category=SEMANTIC, with_vectors=True) for n in (1, 2))
    go_back = world.keep()
    for name in ("claim", "store_many", "delete_where"):
        go_back()
        real = getattr(world.backend, name)

        async def crashes(*given: object, real: object = real, **more: object) -> object:
            await real(*given, **more)  # type: ignore[operator]  # it is a method
            raise Crash

        setattr(world.backend, name, crashes)
        run = world.plan_run()
        try:
            await world.service().run(run.run_id)
        except Crash:
            pass
        finally:
            delattr(world.backend, name)
        assert isinstance(await world.to_the_end(run.run_id), Done)
        assert (await only(world)).entry.content == FACT
        await world.check_balance()


#: Facts of different kinds, as an assistant writes them down, each in one sentence.
FORMS = (
    (SEMANTIC, "The {one} dashboard is owned by team {name}."),
    (SEMANTIC, "Customer {name} pays for {one} by invoice within {n} days."),
    (SOCIAL, "{name} prefers {one} over tea in the morning."),
    (SOCIAL, "{name} manages the {one} team."),
    (SOCIAL, "Don't call {name} about {one} before {n} o'clock."),
    (MemoryCategory.PROCEDURAL, "When the {one} job fails, ask {name} before you restart it."),
    (MemoryCategory.PROCEDURAL, "Run `make {one}` before every release of {name}."),
    (MemoryCategory.EPISODIC, "On day {n} {name} closed the {one} ticket."),
    (MemoryCategory.EPISODIC, "{name} was on call when {one} went down."),
    (SEMANTIC, '{{"service": "{one}", "port": {n}, "owner": "{name}"}}'),
)
THINGS = ("billing", "search", "coffee", "backup", "garden", "printer", "queue", "archive")
NAMES = ("Ada", "Bob", "Mia", "Tom", "Ines", "Paul")
WAYS = ("{}", "  {}", "Reminder: {}", "Note that {}", "{} (again)")


async def test_in_a_month_of_maintenance_by_the_default_policy_no_fact_is_lost(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    dice = random.Random(11)  # the same facts each time
    world = made(make_maintenance_fixture)
    assert world.policy.strategy == ConsolidationStrategyType.DEDUPE
    facts = sorted(
        {
            (category, form.format(one=one, name=name, n=7 + n))
            for category, form in FORMS
            for n, one in enumerate(THINGS)
            for name in NAMES
        }
    )
    facts = dice.sample(facts, 400)
    twice = dice.sample(facts, 60)
    again = [(category, dice.choice(WAYS[: 2 if "{" in text else None]).format(text)) for category, text in twice]
    arriving = [*facts, *again]
    dice.shuffle(arriving)
    numbers = iter(range(1, 1000))
    for day in range(1, 31):
        today = [arriving.pop() for _ in range(min(len(arriving), 30))]
        age = day - 1  # `memory` counts back from the clock's start
        await world.store(
            memory(next(numbers), category=category, content=text, days_old=-age) for category, text in today
        )
        world.clock.turn(timedelta(days=1))
        if day % 3 == 0:
            await world.maintenance_run()
    await world.check_balance()

    live = [record.entry for record in (await world.live()).values()]
    archived = world.ledger.archive
    removed = world.originals.keys() - (await world.live()).keys()
    assert len(live) == 400
    assert len(removed) == 120
    for category, text in facts:
        assert any(entry.category is category and text.casefold() in entry.content.casefold() for entry in live), text
    for memory_id in removed:
        found = archived.find(COMPANY, AGENT, memory_id)
        assert found is not None
        assert comparable(found.record) == comparable(world.originals[memory_id])
