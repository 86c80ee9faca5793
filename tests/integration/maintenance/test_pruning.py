"""Lessons that the policy forgets: which go, what is never taken for one, and that an undo brings them back."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger_records import finish_lesson, open_lesson
from support.lesson_memories import lesson_memory
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    START,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    opened_world,
)
from support.thorough import examples

from memcore.config.maintenance import ConsolidationConfig, PruningConfig, RetentionConfig
from memcore.jobs import AppliedPayload, Use
from memcore.ledger.runs import RunStep
from memcore.maintenance.provenance import MemoryState, TextLocation, trace_memory
from memcore.models.memory import MemoryCategory
from memcore.procedural.records import proposal_of
from memcore.records import MemoryRecord

PROCEDURAL = MemoryCategory.PROCEDURAL


def ids_of(records: Sequence[MemoryRecord]) -> set[str]:
    return {each.entry.id for each in records}


def applied(world: MaintenanceFixture, record: MemoryRecord, *outcomes: str) -> None:
    for number, outcome in enumerate(outcomes):
        fields: dict[str, Any] = {"outcome": outcome, "application_id": f"{record.entry.id}-{number}"}
        payload = AppliedPayload(
            company=COMPANY, agent_id=AGENT, skill_id=record.entry.id, applied_at=world.clock(), **fields
        )
        assert world.ledger.skills.apply(payload, skill_id=record.entry.id)


async def test_lessons_of_a_certain_age_go_and_an_undo_brings_them_back_exactly(world: MaintenanceFixture) -> None:
    old = [lesson_memory(n, days_old=91 + n) for n in range(3)]
    pinned = [
        lesson_memory(10, days_old=300, more_tags=["pinned"]),
        lesson_memory(11, days_old=300, more_tags=["core"]),
    ]
    young = [lesson_memory(n, days_old=80, is_success=True) for n in range(20, 23)]
    # What an engine stores is none of ours, even when it has a lesson's category, tags and text.
    outsiders = [
        memory(1, days_old=300, category=PROCEDURAL, tags=["non-inferable", "core"], content=old[0].entry.content)
    ]
    await world.store([*old, *pinned, *young, *outsiders])
    before = await world.snapshot()

    maintenance_run = await world.maintenance_run()

    assert maintenance_run.counts["pruned"] == 3
    assert set(await world.live()) == ids_of([*pinned, *young, *outsiders])
    await world.check_balance()
    undo = await world.undo(maintenance_run.run_id)
    assert (undo.counts["restored"], undo.counts["skipped"]) == (3, 0)
    assert await world.snapshot() == before
    assert proposal_of((await world.live())[old[0].entry.id]) == proposal_of(old[0])
    # Someone wanted them back: the next run does not take them again.
    assert (await world.maintenance_run()).counts["pruned"] == 0
    await world.check_balance()


async def test_its_history_says_why_a_lesson_is_gone(world: MaintenanceFixture) -> None:
    gone = lesson_memory(1, days_old=100)
    await world.store([gone])
    maintenance_run = await world.maintenance_run()

    memory_history = await trace_memory(
        gone.entry.id, backend=world.backend, ledger=world.ledger, company=COMPANY, journal_days=7
    )

    assert (memory_history.memory.state, memory_history.memory.text_in) == (MemoryState.REMOVED, TextLocation.JOURNAL)
    assert [(each.kind, each.reason, each.run_id) for each in memory_history.memory.chapters] == [
        ("removed", "pruned", maintenance_run.run_id)
    ]


async def test_a_run_merges_no_lesson(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=CONDENSE, categories=(PROCEDURAL,), max_removed_fraction=1.0)
    )
    lessons = [lesson_memory(n, days_old=60 - n) for n in range(8)]
    await world.store(lessons)
    await world.store(memory(n, days_old=60 - n, category=PROCEDURAL) for n in range(8))
    maintenance_run = await world.maintenance_run()
    assert maintenance_run.counts["consolidated"] == 7
    assert ids_of(lessons) <= set(await world.live())


#: Ages in days, whether someone pinned it, and how often it helped.
LESSONS = st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(0, 2)), min_size=1, max_size=16)


@given(lessons=LESSONS, most=st.integers(1, 8), hybrid=st.none() | st.integers(1, 20))
@settings(max_examples=examples(8))
def test_a_run_leaves_exactly_as_many_as_the_policy_says(
    ledger_template: Path, lessons: list[tuple[int, bool, int]], most: int, hybrid: int | None
) -> None:
    with opened_world(ledger_template) as world:
        kind = {"type": "pareto"} if hybrid is None else {"type": "hybrid", "max_age_days": hybrid}
        world.pruning = PruningConfig.model_validate({**kind, "max_entries": most})
        asyncio.run(_leaves_so_many(world, lessons, most=most, max_age=hybrid))


async def _leaves_so_many(
    world: MaintenanceFixture, lessons: list[tuple[int, bool, int]], *, most: int, max_age: int | None
) -> None:
    records = [
        lesson_memory(n, days_old=days + 0.5, more_tags=["pinned"] if is_pinned else [])
        for n, (days, is_pinned, _) in enumerate(lessons)
    ]
    for record, (_, _, successes) in zip(records, lessons, strict=True):
        applied(world, record, *["success"] * successes)
    await world.store([*records, memory(1, days_old=2, category=PROCEDURAL)])
    plan = await world.service().plan(AGENT)

    maintenance_run = await world.maintenance_run()

    free = [days for days, is_pinned, _ in lessons if not is_pinned and (max_age is None or days + 0.5 <= max_age)]
    pinned = sum(is_pinned for _, is_pinned, _ in lessons)
    left = [record for record in (await world.live()).values() if record.is_lesson]
    assert len(left) == min(most, len(free)) + pinned
    assert plan.pruned == maintenance_run.counts["pruned"] == len(lessons) - len(left)
    await world.check_balance()
    again = await world.maintenance_run()
    assert again.counts["pruned"] == 0


async def test_of_old_lessons_those_stay_that_helped_then_those_that_were_shown(world: MaintenanceFixture) -> None:
    world.pruning = PruningConfig(type="pareto", max_entries=4)
    helped, failed, shown, untried, second = (lesson_memory(n, days_old=50) for n in range(5))
    newest = lesson_memory(9, days_old=1)
    await world.store([helped, failed, shown, untried, second, newest])
    applied(world, helped, "success", "failure")
    applied(world, second, "success")
    applied(world, failed, "failure", "failure", "failure")
    use = Use(agent_id=AGENT, memory_id=shown.entry.id, uses=5, last_used_at=START)
    world.ledger.uses.count(COMPANY, "batch", [use])

    await world.maintenance_run()

    assert set(await world.live()) == ids_of([newest, second, helped, shown])


def taught(world: MaintenanceFixture, record: MemoryRecord, *days_ago: int) -> None:
    """Note that tasks of so long ago taught a lesson."""
    for number, days in enumerate(days_ago):
        lesson_id = f"{record.entry.id}-{number}"
        now = world.clock()
        world.clock.at = now - timedelta(days=days)
        assert open_lesson(world.ledger, COMPANY, AGENT, lesson_id)
        finish_lesson(world.ledger, COMPANY, lesson_id, "repeated", memory_id=record.entry.id)
        world.clock.at = now


@pytest.mark.parametrize("policy", [{"type": "ttl"}, {"type": "hybrid", "max_entries": 1}])
async def test_a_lesson_is_as_old_as_the_last_task_that_taught_it(
    world: MaintenanceFixture, policy: dict[str, Any]
) -> None:
    world.pruning = PruningConfig.model_validate(policy)
    again, once = lesson_memory(1, days_old=200), lesson_memory(2, days_old=100)
    await world.store([again, once])
    taught(world, again, 85, 3)
    taught(world, once, 89)
    assert (await world.maintenance_run()).counts["pruned"] == (0 if policy["type"] == "ttl" else 1)
    assert again.entry.id in await world.live()


async def test_a_lesson_that_surely_helps_stays_before_one_that_helped_as_often_and_failed(
    world: MaintenanceFixture,
) -> None:
    world.pruning = PruningConfig(type="pareto", max_entries=2)
    sure, unsure, again = (lesson_memory(n, days_old=50) for n in range(3))
    await world.store([sure, unsure, again])
    applied(world, sure, *["success"] * 3)
    applied(world, unsure, *["success"] * 3, *["failure"] * 6)
    applied(world, again, *["success"] * 3, *["failure"] * 6)
    taught(world, again, 50, 50)
    await world.maintenance_run()
    assert set(await world.live()) == ids_of([sure, again])


async def test_what_retention_removes_too_is_counted_once(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    retention = RetentionConfig(default_retention_days=120)
    world = make_maintenance_fixture(ConsolidationConfig(retention=retention, max_removed_fraction=1.0))
    await world.store(lesson_memory(n, days_old=days) for n, days in enumerate((10, 100, 110, 130, 140)))
    plan = await world.service().plan(AGENT)
    assert plan.steps[0].step is RunStep.RETENTION
    assert (plan.steps[0].removed, plan.pruned, len(plan.steps[0].examples)) == (4, 2, 4)
    maintenance_run = await world.maintenance_run()
    assert (maintenance_run.counts["retention"], maintenance_run.counts["pruned"]) == (2, 2)


async def test_pruning_is_not_held_however_much_it_forgets(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig())
    world.pruning = PruningConfig(type="pareto", max_entries=1)
    await world.store(lesson_memory(n, days_old=n / 10) for n in range(40))
    assert (await world.maintenance_run()).counts["pruned"] == 39


async def test_without_a_policy_nothing_is_forgotten(
    world: MaintenanceFixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await world.store([lesson_memory(1, days_old=400)])
    world.pruning = None
    assert (await world.maintenance_run()).counts["pruned"] == 0
    assert "procedural_pruning.complete" not in caplog.messages
    world.pruning = PruningConfig()
    assert (await world.maintenance_run()).counts["pruned"] == 1
    assert "procedural_pruning.complete" in caplog.messages
