"""A maintenance run from end to end: removals, summaries, limits, and the removal guard."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    START,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    uid,
)

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, RetentionConfig, RetentionRule
from memcore.jobs import Dead, Deferred, Skipped
from memcore.ledger.agents import AgentSpec
from memcore.ledger.attempt import RetryPolicy
from memcore.ledger.runs import RunStep
from memcore.ledger.work_items import WorkState
from memcore.maintenance.service import MODEL_DELAY
from memcore.models.memory import MemoryCategory, MemoryLevel
from memcore.records import Lineage

OFF = ConsolidationStrategyType.NONE
FREE = {"max_removed_fraction": 1.0}


def keep(days: int, **more: object) -> ConsolidationConfig:
    return ConsolidationConfig.model_validate(
        {"retention": {"default_retention_days": days}, "strategy": OFF, **FREE, **more}
    )


async def test_retention_removes_more_than_a_thousand_in_one_run(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(keep(20))
    await world.store(memory(n, days_old=21) for n in range(1, 1203))
    await world.store([memory(5000, days_old=19)])

    run = await world.maintenance_run()

    assert run.counts["retention"] == 1202
    assert set(await world.live()) == {uid(5000)}
    await world.check_balance()


async def test_an_expired_memory_goes_whatever_its_age_and_its_rule(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(keep(1000))
    await world.store([memory(1, days_old=1, expires_in_days=-0.5), memory(2, days_old=1, expires_in_days=0.5)])

    run = await world.maintenance_run()

    assert (run.counts["expired"], run.counts["retention"]) == (1, 0)
    assert set(await world.live()) == {uid(2)}


async def test_what_retention_removes_is_journaled_in_full(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(keep(20))
    original = memory(1, content="long " * 500, tags=["a"], with_vectors=True)
    await world.store([original])

    await world.maintenance_run()

    await world.check_balance()
    assert world.journaled(uid(1)).entry.content == original.entry.content


async def test_per_agent_overrides_win_over_the_company(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    policy = ConsolidationConfig(
        strategy=OFF,
        max_removed_fraction=1.0,
        retention=RetentionConfig(rules=(RetentionRule(category=MemoryCategory.EPISODIC, retention_days=10),)),
    )
    world = make_maintenance_fixture(policy)
    world.ledger.agents.put(
        AgentSpec(company=COMPANY, agent_id=AGENT, retention_days=40, retention_overrides={MemoryCategory.EPISODIC: 60})
    )
    await world.store(
        [
            memory(1, category=MemoryCategory.EPISODIC, days_old=50),
            memory(2, category=MemoryCategory.EPISODIC, days_old=61),
            memory(3, category=MemoryCategory.SOCIAL, days_old=39),
            memory(4, category=MemoryCategory.SOCIAL, days_old=41),
        ]
    )

    await world.maintenance_run()

    assert set(await world.live()) == {uid(1), uid(3)}


async def test_a_retention_rule_wins_over_a_pin(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(keep(20))
    await world.store([memory(1, days_old=21, tags=["pinned"])])

    await world.maintenance_run()

    assert await world.live() == {}


async def test_a_group_becomes_its_newest_and_one_summary(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 7))

    run = await world.maintenance_run()

    live = await world.live()
    (summary,) = await world.summaries()
    assert set(live) == {uid(6), summary.entry.id}
    assert summary.lineage.summary_of == tuple(uid(n) for n in range(1, 6))
    assert (run.counts["consolidated"], run.counts["summaries"]) == (5, 1)
    assert (run.state, run.step) == (WorkState.DONE, RunStep.FINISHED)
    await world.check_balance()


async def test_more_than_a_thousand_memories_are_all_considered_for_consolidation(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=200 - n / 100) for n in range(1, 1502))

    run = await world.maintenance_run()

    assert run.counts["consolidated"] == 1500
    assert run.counts["summaries"] >= 75
    await world.check_balance()


async def test_a_second_run_leaves_summaries_as_they_are(world: MaintenanceFixture) -> None:
    await world.store(memory(n) for n in range(1, 30))
    await world.maintenance_run()
    before = await world.snapshot()

    run = await world.maintenance_run()

    assert run.counts["consolidated"] == 0
    assert await world.snapshot() == before


async def test_protected_young_working_and_session_memories_are_never_consolidated(world: MaintenanceFixture) -> None:
    world.level = MemoryLevel.SESSION
    numbers = iter(range(1, 1000))
    for tag in ("distillation", "consolidated", "superseded", "core", "pinned"):
        await world.store(memory(next(numbers), tags=[tag]) for _ in range(4))
    await world.store(memory(next(numbers), days_old=6.9) for _ in range(4))
    await world.store(memory(next(numbers), category=MemoryCategory.WORKING) for _ in range(4))
    await world.store(memory(next(numbers), lineage=Lineage(session_id="open")) for _ in range(4))
    before = await world.snapshot()

    await world.maintenance_run()

    assert await world.snapshot() == before


async def test_memories_of_two_projects_or_with_and_without_expiry_are_not_merged(world: MaintenanceFixture) -> None:
    await world.store(memory(n, lineage=Lineage(project_id="p")) for n in range(1, 4))
    await world.store(memory(n, lineage=Lineage(project_id="q")) for n in range(4, 7))
    await world.store(memory(n, expires_in_days=n) for n in range(7, 10))
    await world.store(memory(n) for n in range(10, 13))

    await world.maintenance_run()

    summaries = {s.lineage.summary_of: s for s in await world.summaries()}
    assert {tuple(sorted(sources)) for sources in summaries} == {
        (uid(1), uid(2)),
        (uid(4), uid(5)),
        (uid(7), uid(8)),
        (uid(10), uid(11)),
    }
    by_first = {min(sources): summary for sources, summary in summaries.items()}
    assert by_first[uid(1)].lineage.project_id == "p"
    assert by_first[uid(7)].entry.expires_at == START + timedelta(days=7)
    assert by_first[uid(10)].entry.expires_at is None


async def test_a_summary_leaves_with_its_oldest_source_and_takes_no_source_along_much_too_early(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    rule = RetentionConfig(default_retention_days=200)
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=ConsolidationStrategyType.SIMPLE, retention=rule, max_removed_fraction=1.0)
    )
    await world.store(memory(n, days_old=190 - 2 * n) for n in range(1, 80))
    await world.maintenance_run()
    summaries = await world.summaries()
    assert len(summaries) > 5

    for summary in summaries:
        made_at = [world.originals[each].entry.created_at for each in summary.lineage.summary_of]
        assert summary.entry.created_at == min(made_at), "no text outlives its rule"
        assert max(made_at) - min(made_at) <= timedelta(days=20), "the newest goes a tenth of its time too early"


async def test_a_long_memory_cut_in_its_summary_is_whole_in_the_journal(world: MaintenanceFixture) -> None:
    texts = {n: f"{n} is first. Then comes more. " + "X" * 900 for n in range(1, 4)}
    await world.store(memory(n, days_old=40 - n, content=text) for n, text in texts.items())

    await world.maintenance_run()

    (summary,) = await world.summaries()
    assert len(summary.entry.content) < 900
    assert world.journaled(uid(1)).entry.content == texts[1]
    await world.check_balance()


async def test_enforcement_takes_the_oldest_of_equals_and_not_the_first_page(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=OFF, max_memories_per_agent=10, max_removed_fraction=1.0)
    )
    await world.store(memory(100 - n, days_old=n) for n in range(1, 16))

    run = await world.maintenance_run()

    assert run.counts["enforced"] == 5
    assert set(await world.live()) == {uid(100 - n) for n in range(1, 11)}
    await world.check_balance()


async def test_the_excess_is_counted_exactly_beyond_a_thousand(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=OFF, max_memories_per_agent=300, max_removed_fraction=1.0)
    )
    await world.store(memory(n, days_old=n / 10) for n in range(1, 1702))

    run = await world.maintenance_run()

    assert run.counts["enforced"] == 1401
    assert len(await world.live()) == 300


async def test_pinned_and_core_memories_go_last(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=OFF, max_memories_per_agent=2, max_removed_fraction=1.0)
    )
    await world.store(
        [
            memory(1, days_old=300, tags=["pinned"], confidence=0.1),
            memory(2, days_old=200, tags=["core"]),
            memory(3, days_old=1),
            memory(4, days_old=2),
        ]
    )

    await world.maintenance_run()

    assert set(await world.live()) == {uid(1), uid(2)}


async def test_the_agents_own_limit_wins_over_the_companys(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy=OFF, max_removed_fraction=1.0))
    world.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=AGENT, max_memories=3))
    await world.store(memory(n) for n in range(1, 9))

    await world.maintenance_run()

    assert len(await world.live()) == 3


async def test_another_agents_memories_are_not_touched(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(keep(20, max_memories_per_agent=1))
    await world.store(memory(n, days_old=40) for n in range(1, 9))
    await world.backend.store_many([memory(n, days_old=40, agent_id="bob") for n in range(101, 109)])

    await world.maintenance_run()

    assert len(await world.live("bob")) == 8


async def test_the_plan_says_exactly_what_the_run_then_does(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(
            strategy=CONDENSE,
            retention=RetentionConfig(rules=(RetentionRule(category=MemoryCategory.SEMANTIC, retention_days=20),)),
            max_memories_per_agent=4,
            group_max_entries=4,
            max_removed_floor=5,
        )
    )
    await world.store(memory(n, days_old=30 + n, category=MemoryCategory.SEMANTIC) for n in range(1, 5))
    await world.store([memory(5, days_old=30, category=MemoryCategory.SEMANTIC, expires_in_days=-1)])
    await world.store([memory(6, days_old=30, expires_in_days=-1)])
    await world.store(memory(n, days_old=60 - n) for n in range(10, 20))
    await world.store(memory(n, days_old=n - 19) for n in range(20, 27))
    before = await world.snapshot()

    plan = await world.service().plan(AGENT)

    assert await world.snapshot() == before
    assert plan.is_held
    run = await world.maintenance_run(allow_large=True)
    counts = run.counts
    assert {step.step: step.removed for step in plan.steps} == {
        RunStep.RETENTION: counts["retention"] + counts["expired"],
        RunStep.CONSOLIDATION: counts["consolidated"],
        RunStep.ENFORCEMENT: counts["enforced"],
    }
    assert plan.summaries == counts["summaries"]
    assert counts["enforced"] > 0
    live = set(await world.live())
    assert all(step.examples for step in plan.steps)
    assert all(not live & set(step.examples) for step in plan.steps)


async def test_a_strategy_without_its_model_snoozes_after_retention(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(keep(50, strategy="llm"))
    await world.store([memory(1, days_old=60), *(memory(n) for n in range(2, 6))])
    planned = world.plan_run()

    outcome = await world.to_the_end(planned.run_id)

    assert isinstance(outcome, Deferred)
    assert "consolidation.strategy" in outcome.reason
    run = world.run(planned.run_id)
    # Retention again in an hour; the removal guard judges once the strategy can say what it merges.
    assert (run.state, run.step, run.attempt) == (WorkState.WAITING, RunStep.RETENTION, 0)
    assert run.counts["retention"] == 1
    assert run.dispatch_after is not None
    assert timedelta(0) < run.dispatch_after - world.clock.at <= MODEL_DELAY
    assert set(await world.live()) == {uid(n) for n in range(2, 6)}


async def test_a_finished_run_is_not_run_again(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])
    run = await world.maintenance_run()

    outcome = await world.service().run(run.run_id)

    assert isinstance(outcome, Skipped)


@pytest.mark.parametrize("known", [False, True])
async def test_a_run_that_is_not_this_companys_is_dead(world: MaintenanceFixture, known: bool) -> None:
    run_id = world.plan_run().run_id if known else "no-such-run"
    service = replace(world.service(), company="another")

    assert isinstance(await service.run(run_id), Dead)


async def test_a_run_that_never_reaches_its_end_fails_for_good(world: MaintenanceFixture) -> None:
    planned = world.plan_run()
    for _ in range(RetryPolicy().attempts or 0):
        world.ledger.runs.claim(planned.company, planned.run_id, lease=timedelta(0))

    outcome = await world.service().run(planned.run_id)

    assert isinstance(outcome, Dead)
    assert world.run(planned.run_id).state is WorkState.FAILED
