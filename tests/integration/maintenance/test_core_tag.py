"""Core memories are protected under the tag that the policy gives them, in every step that removes."""

from support.lesson_memories import lesson_memory
from support.maintenance_fixture import MakeMaintenanceFixture, memory, uid

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, PruningConfig
from memcore.config.retrieval import MemoryRetrievalConfig, SelfEditingMemoryConfig
from memcore.jobs import Done

HEART = MemoryRetrievalConfig(self_editing=SelfEditingMemoryConfig(core_memory_tag="heart"))


async def test_a_full_agent_loses_others_first(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=ConsolidationStrategyType.NONE, max_memories_per_agent=2, max_removed_fraction=1.0)
    )
    await world.store([memory(1, days_old=300, tags=["heart"]), memory(2), memory(3), memory(4, tags=["core"])])

    plan = await world.service(retrieval=HEART).plan("ada")
    outcome = await world.service(retrieval=HEART).run(world.plan_run().run_id)

    assert isinstance(outcome, Done)
    assert set(await world.live()) == {uid(1), uid(4)}
    assert set(plan.steps[-1].examples) == {uid(2), uid(3)}


async def test_consolidation_leaves_them_as_they_are(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=ConsolidationStrategyType.SIMPLE, max_removed_fraction=1.0)
    )
    kept = [memory(n, days_old=50, tags=["heart"]) for n in range(1, 5)]
    await world.store([*kept, *(memory(n, days_old=50) for n in range(5, 9))])

    await world.service(retrieval=HEART).run(world.plan_run().run_id)

    left = set(await world.live())
    assert left >= {each.entry.id for each in kept}
    assert len(left & {uid(n) for n in range(5, 9)}) < 4, "others were merged"


async def test_pruning_leaves_lessons_with_the_tag(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy=ConsolidationStrategyType.NONE))
    world.pruning = PruningConfig(type="ttl", max_age_days=90)
    kept, gone = lesson_memory(1, days_old=300, more_tags=["heart"]), lesson_memory(2, days_old=300)
    await world.store([kept, gone])

    await world.service(retrieval=HEART).run(world.plan_run().run_id)

    assert set(await world.live()) == {kept.entry.id}
