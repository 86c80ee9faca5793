"""A run under the default policy leaves facts alone; what a lossy strategy merges, and where that is found."""

from datetime import timedelta
from itertools import count

import pytest
from benchmarks.nights.facts import (
    contradictions,
    facts,
    languages,
    lookalikes,
    newer,
    paraphrases,
    repeated,
    structured,
)
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    comparable,
    memory,
)

from memcore.config.maintenance import ConsolidationConfig, RetentionConfig, RetentionRule
from memcore.jobs import Done
from memcore.models.memory import MemoryCategory, MemoryLevel, MemoryQuery
from memcore.records import Lineage

SEMANTIC, SOCIAL, EPISODIC = MemoryCategory.SEMANTIC, MemoryCategory.SOCIAL, MemoryCategory.EPISODIC

#: Six facts of a person, as an assistant writes them down: a sentence or two each, none said elsewhere.
FACTS = (
    (SEMANTIC, "Mia is allergic to peanuts; never order from the Thai place on 5th street for her."),
    (SEMANTIC, "Customer ACME must get invoices as PDF by mail, never through the portal."),
    (SEMANTIC, "The staging database is wiped every Sunday at 03:00 UTC."),
    (SOCIAL, "Don't call Tom before ten; he works late shifts."),
    (SOCIAL, "When the build breaks on a weekend, ask Ines instead of Paul."),
    (SOCIAL, "Paul and Ines share one car on Thursdays."),
)

#: What happened on five days, told at length.
DAYS = tuple(
    f"On day {number} the release {number}.4 was cut at noon. Everybody said good morning and asked how it went. "
    f"Ticket OPS-{number}17 was closed by Ada, who had found the cause in the proxy. Then all went home."
    for number in range(1, 6)
)


@pytest.fixture
def default(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture(ConsolidationConfig())


async def store_facts(world: MaintenanceFixture) -> None:
    await world.store(
        memory(number, category=category, content=text, days_old=8 + number)
        for number, (category, text) in enumerate(FACTS, start=1)
    )


async def store_days(world: MaintenanceFixture, *, project_id: str | None = None) -> None:
    await world.store(
        memory(
            100 + number, category=EPISODIC, content=text, days_old=20 - number, lineage=Lineage(project_id=project_id)
        )
        for number, text in enumerate(DAYS, start=1)
    )


def forget(world: MaintenanceFixture) -> None:
    """Let so much time pass that nothing of today can be undone, and sweep."""
    world.clock.turn(timedelta(days=world.policy.journal_days + 1))
    world.ledger.journal.expire(COMPANY, before=world.clock() - timedelta(days=world.policy.journal_days))


async def store_days_of_another(world: MaintenanceFixture) -> None:
    await world.store(
        memory(200 + number, category=EPISODIC, content=f"Another project. {text}", days_old=20 - number)
        for number, text in enumerate(DAYS, start=1)
    )


async def test_facts_of_a_person_stay_word_for_word(default: MaintenanceFixture) -> None:
    await store_facts(default)

    plan = await default.service().plan(AGENT)
    run = await default.maintenance_run()

    texts = [record.entry.content for record in (await default.live()).values()]
    assert sorted(texts) == sorted(text for _, text in FACTS)
    assert any("allergic to peanuts" in text for text in texts)
    assert run.counts.get("removed", 0) == plan.removed == 0
    await default.check_balance()


async def test_what_a_summary_replaced_can_be_restored_after_the_journal(default: MaintenanceFixture) -> None:
    default.policy = ConsolidationConfig(strategy=CONDENSE)
    await store_days(default)

    plan = await default.service().plan(AGENT)
    run = await default.maintenance_run()
    (summary,) = await default.summaries()
    replaced = summary.lineage.summary_of
    forget(default)

    assert len(replaced) == 4
    assert plan.archived == default.ledger.archive.archived_by(run.run_id) == 4
    assert not default.ledger.journal.undoable(run.run_id)
    found = default.ledger.archive.search(COMPANY, AGENT, MemoryQuery(text="OPS-217"))
    assert found[0].record.entry.content == DAYS[1]
    for memory_id in replaced:
        restored = default.plan_run(kind="restore", scope_id=memory_id)
        assert isinstance(await default.to_the_end(restored.run_id), Done)
        assert comparable((await default.live())[memory_id]) == comparable(default.originals[memory_id])


@pytest.mark.parametrize("level", [MemoryLevel.PERSISTENT, MemoryLevel.PROJECT, MemoryLevel.SESSION])
async def test_only_the_categories_of_the_policy_are_merged(
    make_maintenance_fixture: MakeMaintenanceFixture, level: MemoryLevel
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy=CONDENSE, categories=(SOCIAL,)))
    world.level = level
    await store_facts(world)
    await store_days(world)

    await world.maintenance_run()

    (summary,) = await world.summaries()
    assert summary.entry.category is SOCIAL
    assert len((await world.live()).keys() & world.originals.keys()) == len(FACTS) + len(DAYS) - 2


async def test_texts_behind_a_deleted_summary_leave_the_archive_with_it(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(
            strategy=CONDENSE,
            retention=RetentionConfig(rules=(RetentionRule(category=EPISODIC, retention_days=400),)),
        )
    )
    world.level = MemoryLevel.PROJECT
    await store_days(world, project_id="apollo")
    await store_days_of_another(world)
    await world.maintenance_run()
    assert world.ledger.archive.count(COMPANY, AGENT) == 8

    ended = await world.end("end_project", "apollo")
    await world.undo(ended.run_id)
    forget(world)
    assert world.ledger.archive.count(COMPANY, AGENT) == 8  # The summary is back, and so is what explains it.

    await world.end("end_project", "apollo")
    assert world.ledger.archive.count(COMPANY, AGENT) == 8  # It can still be undone.
    forget(world)
    assert world.ledger.archive.count(COMPANY, AGENT) == 4

    world.clock.turn(timedelta(days=400))
    await world.maintenance_run()
    forget(world)
    assert await world.live() == {}
    assert world.ledger.archive.count(COMPANY, AGENT) == 0


async def test_texts_behind_a_summary_over_the_limit_stay_in_the_archive(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy=CONDENSE, max_removed_fraction=1.0))
    await store_days(world)
    await world.maintenance_run()
    (summary,) = await world.summaries()
    world.policy = world.policy.model_copy(update={"max_memories_per_agent": 1})

    await world.maintenance_run()
    forget(world)

    assert summary.entry.id not in await world.live()
    assert world.ledger.archive.count(COMPANY, AGENT) == 5


@pytest.mark.parametrize("limit", [10_000, 90], ids=["no limit reached", "limit reached"])
async def test_after_a_week_of_runs_all_that_left_comes_back_and_no_sentence_is_lost(
    make_maintenance_fixture: MakeMaintenanceFixture, limit: int
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(max_memories_per_agent=limit))
    said = [*facts()[::17], *lookalikes()[::5], *structured()[:6], *languages()[::10]]
    said += [each for pair in [*contradictions()[::20], *paraphrases()[:4]] for each in pair]
    again = repeated(said[:20])
    numbers = count(1)
    for some, days_old in ((said, 40.0), (again, 20.0)):
        await world.store(
            memory(number, category=SEMANTIC, content=each.text, days_old=days_old)
            for number, each in zip(numbers, some, strict=False)
        )

    for day in range(8):
        await world.maintenance_run()
        world.clock.turn(timedelta(days=1))
        await world.store(
            memory(number, category=EPISODIC, content=each.text, days_old=-day)
            for number, each in zip(numbers, newer(day), strict=False)
        )
    await world.maintenance_run()
    forget(world)

    live = await world.live()
    left = world.originals.keys() - live.keys()
    found = {record.entry.content for record in live.values()}
    archived = {each: world.ledger.archive.find(COMPANY, AGENT, each) for each in left}
    for memory_id, copy in archived.items():
        assert copy is not None
        assert comparable(copy.record) == comparable(world.originals[memory_id])
        found.add(copy.record.entry.content)
    assert found >= {record.entry.content for record in world.originals.values()}
    if limit == 10_000:
        texts = [record.entry.content for record in live.values()]
        assert len(texts) == len(world.originals) - len(again)
        assert {each.text for each in said[20:]} <= set(texts)
        assert all({one.text, other.text} & set(texts) for one, other in zip(said, again, strict=False))
    restored = world.plan_run(kind="restore", scope_id=min(left))
    assert isinstance(await world.to_the_end(restored.run_id), Done)
    assert comparable((await world.live())[min(left)]) == comparable(world.originals[min(left)])
