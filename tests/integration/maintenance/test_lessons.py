"""Compressed experience and the run: it is not summarised, and it may be let go like any other memory."""

from datetime import timedelta

from support.maintenance_fixture import AGENT, CONDENSE, START, MakeMaintenanceFixture, memory, uid

from memcore.config.maintenance import ConsolidationConfig, RetentionConfig
from memcore.experience import record_of
from memcore.models.experience import CompressedExperience
from memcore.models.memory import MemoryCategory
from memcore.records import MemoryRecord


def lesson(number: int) -> MemoryRecord:
    return record_of(
        CompressedExperience(
            id=uid(number),
            agent_id=AGENT,
            strategic_decisions=(f"Look at disk {number} first.",),
            source_artifact_ids=(f"e{number}",),
            compression_ratio=0.1,
            compressor_version="llm-v1",
            created_at=START - timedelta(days=30),
        )
    )


async def test_a_run_summarises_what_lies_around_lessons_and_leaves_them_as_they_are(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy=CONDENSE, max_removed_fraction=1.0))
    lessons = [lesson(number) for number in range(1, 9)]
    await world.store(lessons)
    await world.store(memory(number, category=MemoryCategory.EPISODIC) for number in range(11, 19))
    run = await world.maintenance_run()
    assert run.counts["consolidated"] > 0
    live = await world.live()
    assert {each.entry.id for each in lessons} <= live.keys()
    assert all(live[each.entry.id].entry == each.entry for each in lessons)
    await world.check_balance()


async def test_retention_lets_lessons_go_and_the_journal_keeps_them(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    retention = RetentionConfig(default_retention_days=10)
    world = make_maintenance_fixture(ConsolidationConfig(max_removed_fraction=1.0, retention=retention))
    await world.store([lesson(1)])
    await world.maintenance_run()
    assert await world.live() == {}
    assert world.journaled(uid(1)).entry == lesson(1).entry
