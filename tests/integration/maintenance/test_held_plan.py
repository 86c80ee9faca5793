"""What a held run's plan says: group by group, in net figures, under a version of its own."""

from support.maintenance_fixture import AGENT, MaintenanceFixture, MakeMaintenanceFixture, memory, uid

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, RetentionConfig
from memcore.ledger.work_items import WorkState
from memcore.models.memory import MemoryCategory

SEMANTIC = MemoryCategory.SEMANTIC


async def held(world: MaintenanceFixture) -> str:
    planned = world.plan_run()
    await world.to_the_end(planned.run_id)
    run = world.run(planned.run_id)
    assert run.state is WorkState.HELD
    return str(run.reason)


async def test_copies_that_become_one_each_are_no_loss(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(max_removed_fraction=0.1, max_removed_floor=0))
    texts = [f"the lift of house {number} is blue" for number in range(30)]
    await world.store(
        memory(2 * place + copy, content=text, category=SEMANTIC, days_old=90 - place - copy / 2)
        for place, text in enumerate(texts, start=1)
        for copy in (0, 1)
    )
    reason = await held(world)
    assert reason.startswith("60 memories would become 30: no word is lost; ")
    plan = await world.service().plan_held(AGENT)
    assert (plan.plan.left, plan.plan.after, plan.plan.is_lossless) == (60, 30, True)
    assert plan.evicted == ()
    assert {frozenset(each.members) for each in plan.merges} == {
        frozenset({uid(2 * place), uid(2 * place + 1)}) for place in range(1, 31)
    }
    assert {each.rule for each in plan.merges} == {"dedupe"}
    # The same plan has the same version, another one another.
    assert (await world.service().plan_held(AGENT)).version == plan.version
    await world.store([memory(900, content=texts[0].upper(), category=SEMANTIC)])
    assert (await world.service().plan_held(AGENT)).version != plan.version


async def test_what_goes_over_the_limit_is_said(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    none = ConsolidationStrategyType.NONE
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=none, max_memories_per_agent=3, max_removed_fraction=0.1, max_removed_floor=0)
    )
    await world.store(memory(number) for number in range(1, 11))
    assert (await held(world)).startswith("10 memories would become 3: 0 would be merged, 7 over the limit removed; ")
    plan = await world.service().plan_held(AGENT)
    assert (plan.plan.after, plan.plan.is_lossless, plan.merges) == (3, False, ())
    assert len(plan.evicted) == 5


async def test_copies_that_become_one_each_are_a_loss_where_others_go(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(max_memories_per_agent=2, max_removed_fraction=0.1, max_removed_floor=0)
    )
    texts = ("the lift is blue", "the lift is blue", "one", "two", "three")
    await world.store(memory(place, content=text, category=SEMANTIC) for place, text in enumerate(texts, start=1))
    assert (await held(world)).startswith("5 memories would become 2: 2 would be merged, 2 over the limit removed; ")
    assert not (await world.service().plan_held(AGENT)).plan.is_lossless


async def test_a_plan_that_retention_is_part_of_says_so(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(retention=RetentionConfig(default_retention_days=30)))
    await world.store([memory(1, category=SEMANTIC, days_old=40), memory(2, category=SEMANTIC, days_old=1)])
    first = await world.service().plan_held(AGENT)
    assert (first.plan.live, first.plan.after, first.plan.is_lossless) == (2, 1, False)
    await world.store([memory(3, category=SEMANTIC, days_old=41)])
    second = await world.service().plan_held(AGENT)
    assert (second.plan.after, second.version != first.version) == (1, True)
