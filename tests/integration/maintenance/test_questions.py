"""Who asks a model for a run: once, with a lease that is kept, and within the budget."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.fake_summarizer import FakeSummarizer, SlowFakeSummarizer
from support.fault_injection import Crash
from support.ledger_records import places_due
from support.maintenance_fixture import AGENT, COMPANY, START, MaintenanceFixture, MakeMaintenanceFixture, memory, uid
from support.model_runs import LLM, finish, with_model

from memcore.errors import BudgetExceededError
from memcore.jobs import Deferred, Done, Skipped
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.work_items import Work, WorkState


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer) -> MaintenanceFixture:
    return with_model(make_maintenance_fixture, fake_summarizer)


async def test_a_spent_budget_lets_every_part_sleep_and_nothing_fails(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 8))
    before = await world.snapshot()
    midnight = START + timedelta(hours=22)
    fake_summarizer.script = [BudgetExceededError("0 of 0 tokens are left today", until=midnight)]
    run = world.plan_run()

    outcome = await world.service().run(run.run_id)
    asked = [await world.synthesis().ask(run.run_id, place) for place in range(2)]
    outcome = await world.service().run(run.run_id)

    assert [type(each.outcome) for each in asked] == [Deferred, Skipped]
    assert [each.maintenance_run is not None for each in asked] == [True, False], "the night is told once"
    assert isinstance(outcome, Deferred)
    assert outcome.reason == "0 of 0 tokens are left today"
    assert world.run(run.run_id).state is WorkState.WAITING
    assert world.ledger.work.take_due(limit=9) == ()
    assert await world.snapshot() == before
    assert len(fake_summarizer.asked) == 1

    world.clock.at = midnight + timedelta(seconds=1)
    due = {item.key for item in world.ledger.work.take_due(limit=9)}
    assert due == {run.run_id, f"{run.run_id}.0", f"{run.run_id}.1"}
    assert (await finish(world, run.run_id)).counts["consolidated"] == 6


async def test_a_paused_agent_asks_no_model(world: MaintenanceFixture, fake_summarizer: FakeSummarizer) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    run = world.plan_run()
    await world.service().run(run.run_id)
    world.ledger.companies.pause(COMPANY)

    asked = await world.synthesis().ask(run.run_id, 0)

    assert isinstance(asked.outcome, Deferred)
    assert "paused" in asked.outcome.reason
    assert not fake_summarizer.asked


async def test_a_memory_that_is_gone_when_the_answer_comes_is_left_out_and_the_model_asked_about_the_rest(
    world: MaintenanceFixture,
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    run = world.plan_run()
    await world.service().run(run.run_id)
    await world.ask_model(run.run_id)
    pinned = (await world.live())[uid(2)].entry.metadata.model_copy(update={"tags": ("pinned",)})
    await world.backend.set_metadata_many(AGENT, [uid(2)], pinned)

    await finish(world, run.run_id)

    [summary] = await world.summaries()
    assert summary.lineage.summary_of == (uid(1), uid(3))
    assert "memory number 2" not in summary.entry.content
    assert uid(2) in await world.live()


async def test_two_workers_that_get_the_same_job_ask_once(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    run = world.plan_run()
    await world.service().run(run.run_id)

    found = await asyncio.gather(*(world.synthesis().ask(run.run_id, 0) for _ in range(3)))

    assert sorted(type(each.outcome).__name__ for each in found) == ["Done", "Skipped", "Skipped"]
    assert len(fake_summarizer.asked) == 1


async def test_a_worker_that_dies_while_it_asks_is_followed_by_another(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    run = world.plan_run()
    await world.service().run(run.run_id)
    fake_summarizer.script = [Crash()]
    with pytest.raises(Crash):
        await world.synthesis().ask(run.run_id, 0)

    assert places_due(world.ledger, run.run_id, company=COMPANY) == [], "its lease has not ended"
    world.clock.turn(LEASE_LENGTH)
    assert places_due(world.ledger, run.run_id, company=COMPANY) == [0]
    assert places_due(world.ledger, run.run_id, company=COMPANY) == [], "one death, one message"
    assert (await finish(world, run.run_id)).counts["consolidated"] == 3


async def test_a_slow_model_keeps_its_question_however_long_it_thinks(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, slow = make_maintenance_fixture(LLM), SlowFakeSummarizer()
    world.model = slow
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    run = world.plan_run()
    await world.service().run(run.run_id)
    loop, renewed = asyncio.get_running_loop(), {name: asyncio.Event() for name in ("answers", "syntheses")}

    def renew_and_count(table: Work[Any], name: str) -> Callable[..., None]:
        renew = table.renew

        def renew_once(*args: Any, **kwargs: Any) -> None:
            renew(*args, **kwargs)
            loop.call_soon_threadsafe(renewed[name].set)

        return renew_once

    for name in renewed:
        table = getattr(world.ledger, name)
        monkeypatch.setattr(table, "renew", renew_and_count(table, name))
    asking = asyncio.create_task(world.synthesis(renewal=timedelta(milliseconds=1)).ask(run.run_id, 0))
    await slow.begun.wait()

    for _ in range(4):
        world.clock.turn(LEASE_LENGTH - timedelta(seconds=1))
        # The second renewal of each began after the clock was turned.
        for each in (*renewed.values(), *renewed.values()):
            each.clear()
            await asyncio.wait_for(each.wait(), timeout=600)
        assert places_due(world.ledger, run.run_id, company=COMPANY) == []
        assert isinstance((await world.synthesis().ask(run.run_id, 0)).outcome, Skipped)

    slow.may_answer.set()
    assert isinstance((await asking).outcome, Done)
    assert len(slow.asked) == 1
