"""The plan: what it says is what the run then does, and saying it changes nothing."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger_records import archived_by
from support.maintenance_fixture import (
    AGENT,
    CONDENSE,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    opened_world,
)
from support.random_histories import POLICIES, PRUNINGS, stores
from support.thorough import examples

from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, PruningConfig
from memcore.ledger.runs import RunStep
from memcore.models.memory import MemoryCategory
from memcore.records import MemoryRecord

#: Strategies whose plan is exact: what they merge, they merge without asking anyone.
STRATEGIES = ("simple", "condense", "none")


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(records=stores(), policy=POLICIES, pruning=PRUNINGS, archives=st.booleans(), archived_after=st.integers(1, 30))
@settings(max_examples=examples(4))
def test_the_run_does_what_the_plan_says(
    ledger_template: Path,
    strategy: str,
    records: list[MemoryRecord],
    policy: ConsolidationConfig,
    pruning: PruningConfig | None,
    archives: bool,
    archived_after: int,
) -> None:
    archival = ArchivalConfig(enabled=archives, age_threshold_days=archived_after)
    policy = ConsolidationConfig.model_validate({**dict(policy), "strategy": strategy, "archival": archival})
    with opened_world(ledger_template, policy) as world:
        world.pruning = pruning
        asyncio.run(_planned_then_done(world, records))


async def _planned_then_done(world: MaintenanceFixture, records: list[MemoryRecord]) -> None:
    await world.store(records)
    before = await world.snapshot()

    plan = await world.service().plan(AGENT)

    assert await world.snapshot() == before
    brief = await world.service().plan(AGENT, in_detail=False)
    assert [(step.step, step.removed) for step in brief.steps] == [(step.step, step.removed) for step in plan.steps]
    run = await world.maintenance_run()
    done = run.counts
    removed = {step.step: step.removed for step in plan.steps}
    assert removed == {
        RunStep.RETENTION: done["ended"] + done["retention"] + done["expired"] + done["pruned"],
        RunStep.CONSOLIDATION: done["consolidated"],
        RunStep.ENFORCEMENT: done["enforced"],
    }
    assert plan.pruned == done["pruned"]
    assert plan.summaries == done["summaries"]
    assert plan.archived == world.ledger.archive.archived_by(run.run_id)
    assert sum(group.removed for group in plan.groups) == done["consolidated"]
    assert sum(group.summaries for group in plan.groups) == plan.summaries
    archived = {entry.original_id for entry in archived_by(world.ledger, run.run_id)}
    assert {example for step in plan.steps for example in step.archived_examples} <= archived
    assert (plan.questions, plan.tokens) == (0, 0)


async def test_a_plan_tells_what_is_merged_with_what(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(
            strategy=CONDENSE, categories=(MemoryCategory.EPISODIC, MemoryCategory.SOCIAL), max_removed_fraction=1.0
        )
    )
    records = [memory(n, days_old=40 - n, namespace="work") for n in range(1, 6)]
    records += [memory(n, days_old=40 - n, category=MemoryCategory.SOCIAL) for n in range(6, 10)]
    await world.store(records)

    plan = await world.service().plan(AGENT)

    assert [(group.category, group.namespace, group.removed, group.summaries) for group in plan.groups] == [
        (MemoryCategory.EPISODIC, "work", 4, 1),
        (MemoryCategory.SOCIAL, "default", 3, 1),
    ]
    assert (plan.groups[0].oldest, plan.groups[0].newest) == (
        records[0].entry.created_at,
        records[3].entry.created_at,
    )
