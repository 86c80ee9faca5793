"""What a model is asked for: only what is new, within a cap, and nothing twice."""

from datetime import timedelta

import pytest
from support.fake_summarizer import FakeSummarizer
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid
from support.model_runs import LLM, with_model

from memcore.config.maintenance import ConsolidationConfig
from memcore.ledger.work_items import WorkState

DAY = timedelta(days=1)


async def _filled(
    make_maintenance_fixture: MakeMaintenanceFixture, model: FakeSummarizer, *, last: int = 7, **more: object
) -> MaintenanceFixture:
    world = with_model(make_maintenance_fixture, model, LLM.model_copy(update=more))
    await world.store(memory(n, days_old=40 - n) for n in range(1, last + 1))
    return world


async def test_a_second_run_over_unchanged_memories_asks_nothing(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = await _filled(make_maintenance_fixture, fake_summarizer, min_new=0)
    first = await world.maintenance_run()
    assert len(fake_summarizer.asked) == 2
    world.clock.turn(DAY)

    second = await world.maintenance_run()
    await world.undo(first.run_id)
    world.clock.turn(2 * DAY)
    third = await world.maintenance_run()

    assert (second.counts["consolidated"], third.counts["consolidated"]) == (0, 6)
    assert len(fake_summarizer.asked) == 2, "the answers are kept by what was asked"


@pytest.mark.parametrize(("new", "asks"), [(2, False), (3, True)])
async def test_an_agent_with_too_little_new_is_not_asked_about_but_its_other_steps_go_on(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer, new: int, asks: bool
) -> None:
    world = await _filled(make_maintenance_fixture, fake_summarizer)
    await world.maintenance_run()
    asked = len(fake_summarizer.asked)
    world.clock.turn(DAY)
    await world.store([memory(30, days_old=2, expires_in_days=0.5)])
    # Two are left from the run before: the newest of the group, and the new ones come one by one.
    for number in range(new - 1):
        await world.store([memory(20 + number, days_old=10)])
        assert (await world.maintenance_run()).counts["consolidated"] == 0
        assert "fewer than consolidation.min_new (3)" in str((await world.service().plan(AGENT)).waits)
        world.clock.turn(DAY)
    await world.store([memory(29, days_old=10)])
    world.policy = world.policy.model_copy(update={"max_memories_per_agent": 4})

    run = await world.maintenance_run()

    assert (len(fake_summarizer.asked) > asked) is asks
    assert (run.counts["consolidated"] > 0) is asks
    assert len(await world.live()) <= 4, "enforcement waits for nobody"
    assert uid(30) not in await world.live()


async def test_what_an_undo_brought_back_counts_as_new_and_so_does_a_wider_policy(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = await _filled(make_maintenance_fixture, fake_summarizer, strategy="condense")
    await world.store(memory(n, days_old=40 - n, namespace="other") for n in range(11, 14))
    first = await world.maintenance_run()
    assert "left_unmerged" not in first.counts
    world.policy = world.policy.model_copy(update={"strategy": "llm"})
    await world.undo(first.run_id)
    world.clock.turn(2 * DAY)

    run = await world.maintenance_run()

    assert run.counts["consolidated"] == 8
    assert run.counts["left_unmerged"] == 2
    await world.undo(run.run_id)
    world.clock.turn(2 * DAY)
    assert (await world.maintenance_run()).counts["consolidated"] == 8


async def test_groups_beyond_the_cap_wait_for_the_next_run_and_the_run_says_so(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = with_model(make_maintenance_fixture, fake_summarizer, LLM.model_copy(update={"max_tokens_per_run": 700}))
    # Three of 100 tokens each are a group.
    await world.store(memory(n, days_old=60 - n, content=f"{n:03} one. Two. " + "Y" * 385) for n in range(1, 14))

    plan = await world.service().plan(AGENT)
    first = await world.maintenance_run()

    assert (plan.questions, plan.tokens) == (2, 600)
    assert len(fake_summarizer.asked) == 2
    assert (first.counts["summaries"], first.counts["postponed"]) == (2, 2)
    world.clock.turn(DAY)
    second = await world.maintenance_run()
    assert (second.counts["summaries"], "postponed" in second.counts) == (2, False)
    assert len(fake_summarizer.asked) == 4
    world.clock.turn(DAY)
    await world.maintenance_run()
    assert len(fake_summarizer.asked) == 4
    await world.check_balance()


async def test_a_cap_below_one_group_lets_one_through(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = with_model(make_maintenance_fixture, fake_summarizer, LLM.model_copy(update={"max_tokens_per_run": 100}))
    await world.store(memory(n, days_old=60 - n, content=f"{n:03} one. Two. " + "Y" * 385) for n in range(1, 8))

    run = await world.maintenance_run()

    assert (run.counts["summaries"], run.counts["postponed"]) == (1, 1)


def test_a_run_has_a_cap_by_default() -> None:
    assert ConsolidationConfig().max_tokens_per_run == 100_000


async def test_a_released_run_does_what_was_shown_however_little_is_new(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = await _filled(
        make_maintenance_fixture, fake_summarizer, max_removed_fraction=0.1, max_removed_floor=0, min_new=3
    )
    run = world.plan_run()
    await world.to_the_end(run.run_id)
    assert world.run(run.run_id).state is WorkState.HELD
    world.policy = world.policy.model_copy(update={"min_new": 100})

    world.ledger.runs.approve_held(COMPANY, run.run_id)
    await world.to_the_end(run.run_id)

    assert world.run(run.run_id).counts["consolidated"] == 6
