"""A model that is away: runs wait for it, ask it again, and do without it when their patience is over."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from support.fake_summarizer import FakeSummarizer
from support.fault_injection import Crash, Faults, crash_points
from support.ledger_records import places_due
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    FILLER,
    START,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    TurnedClock,
    memory,
    uid,
)
from support.model_runs import DUAL, LLM, with_model
from support.present import present

from memcore.config.maintenance import ConsolidationConfig
from memcore.errors import BudgetExceededError, MemoryError, ProviderUnavailableError, RetryExhaustedError  # noqa: A004
from memcore.jobs import Deferred, Done, Outcome
from memcore.ledger.work_items import WorkState
from memcore.llm.protocol import Attribution, Completion, CompletionRequest
from memcore.models.memory import ConsolidationInterval, MemoryQuery

DAY = timedelta(hours=24)


@dataclass
class AwayModel(FakeSummarizer):
    """A model that is away until a time."""

    clock: TurnedClock = field(default_factory=TurnedClock)
    back_at: datetime = START
    error: MemoryError = field(default_factory=lambda: RetryExhaustedError("connection refused (4 attempts)"))
    tried_at: list[datetime] = field(default_factory=list)

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        self.tried_at.append(self.clock.at)
        if self.clock.at < self.back_at:
            raise self.error
        return await super().ask(request, by=by, key=key)


async def away(
    make_maintenance_fixture: MakeMaintenanceFixture, outage: timedelta, policy: ConsolidationConfig = LLM
) -> tuple[MaintenanceFixture, AwayModel]:
    """An agent with memories for two groups, and its model."""
    model = AwayModel(back_at=START + outage)
    world = with_model(make_maintenance_fixture, model, policy)
    model.clock = world.clock
    await world.store(
        memory(n, days_old=40 - n, content=f"We spoke about {n} gardens. {FILLER} {FILLER}") for n in range(1, 8)
    )
    return world, model


async def step(world: MaintenanceFixture, run_id: str) -> Outcome:
    """What beat and workers do until nothing is due: the run, its questions, and the run again."""
    outcome = await world.service().run(run_id)
    while isinstance(outcome, Deferred) and (places := places_due(world.ledger, run_id, company=COMPANY)):
        for place in places:
            await world.synthesis().ask(run_id, place)
        outcome = await world.service().run(run_id)
    return outcome


async def to_the_end(world: MaintenanceFixture, run_id: str) -> None:
    """Let the time pass in which the run waits."""
    for _ in range(100):
        if isinstance(await step(world, run_id), Done):
            return
        run = world.run(run_id)
        assert (run.state, run.token) == (WorkState.WAITING, None), "a run that waits holds no lease"
        world.clock.at = max(world.clock.at, present(run.dispatch_after))
    raise AssertionError("the run goes in circles")


@pytest.mark.parametrize("policy", [LLM, DUAL], ids=["llm", "dual_mode"])
@pytest.mark.parametrize("outage", [timedelta(seconds=9), timedelta(hours=5)], ids=["9 s", "5 h"])
async def test_an_outage_within_the_patience_costs_no_summary_its_text(
    make_maintenance_fixture: MakeMaintenanceFixture, outage: timedelta, policy: ConsolidationConfig
) -> None:
    world, model = await away(make_maintenance_fixture, outage, policy)
    run = world.plan_run()

    await to_the_end(world, run.run_id)

    summaries = await world.summaries()
    assert {source for each in summaries for source in each.lineage.summary_of} == {uid(n) for n in range(1, 7)}
    assert all(
        "In short" in each.entry.content and "concat-fallback" not in each.entry.metadata.tags for each in summaries
    )
    assert world.clock.at - model.back_at <= max(timedelta(minutes=2), outage), "soon after it is back"
    assert world.run(run.run_id).attempt <= 1, "waiting uses up no attempt"
    await world.check_balance()


async def test_each_wait_is_longer_than_the_one_before_and_none_is_longer_than_an_hour(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, model = await away(make_maintenance_fixture, timedelta(hours=5))

    await to_the_end(world, world.plan_run().run_id)

    waits = [
        later - earlier for earlier, later in pairwise(sorted({at for at in model.tried_at if at < model.back_at}))
    ]
    assert waits == sorted(waits)
    assert timedelta(minutes=1) <= waits[0] < timedelta(minutes=2)
    assert timedelta(minutes=59) < waits[-1] <= timedelta(minutes=61)
    assert len(waits) <= 12, "a model that is away is not asked all the time"


async def test_a_day_without_the_model_ends_with_the_beginnings_for_all_groups_at_once(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, model = await away(make_maintenance_fixture, timedelta(hours=25))
    run = world.plan_run()

    await to_the_end(world, run.run_id)

    summaries = await world.summaries()
    assert len(summaries) == 2
    assert all(each.entry.metadata.tags[:2] == ("consolidated", "concat-fallback") for each in summaries)
    assert DAY <= world.clock.at - model.tried_at[0] < DAY + timedelta(minutes=5), "not a day for each group"
    archived = world.ledger.archive.search(COMPANY, AGENT, MemoryQuery(limit=9))
    assert {each.original_id for each in archived} == {uid(n) for n in range(1, 7)}
    await world.check_balance()


async def test_a_model_that_was_back_in_between_is_waited_for_anew(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, model = await away(make_maintenance_fixture, timedelta(hours=23))
    run = world.plan_run()
    await step(world, run.run_id)
    world.clock.at = model.back_at
    assert places_due(world.ledger, run.run_id, company=COMPANY) == [0, 1]
    await world.synthesis().ask(run.run_id, 0)
    model.back_at += timedelta(hours=3)
    world.clock.turn(timedelta(hours=2))

    await to_the_end(world, run.run_id)

    assert all("llm-synthesized" in each.entry.metadata.tags for each in await world.summaries())


async def test_a_server_that_asks_for_a_pause_gets_it(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world, model = await away(make_maintenance_fixture, timedelta(seconds=9))
    model.error = RetryExhaustedError("429 (1 attempts)")
    model.error.__cause__ = ProviderUnavailableError("429", retry_after=1800.0)
    run = world.plan_run()

    await step(world, run.run_id)

    waits_until = present(world.run(run.run_id).dispatch_after)
    assert timedelta(minutes=30) <= waits_until - model.tried_at[0] < timedelta(minutes=31)


async def test_a_budget_that_is_spent_for_weeks_uses_up_no_attempt_and_no_patience(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, model = await away(make_maintenance_fixture, timedelta(days=20))
    model.error = BudgetExceededError("spent", until=START)
    run = world.plan_run()
    for _ in range(20):
        model.error = BudgetExceededError("spent", until=world.clock.at + DAY)
        assert isinstance(await step(world, run.run_id), Deferred)
        world.clock.turn(DAY)
    model.error, model.back_at = RetryExhaustedError("away"), world.clock.at + timedelta(seconds=9)

    await to_the_end(world, run.run_id)

    assert all("llm-synthesized" in each.entry.metadata.tags for each in await world.summaries())


async def test_the_next_slot_of_a_waiting_run_adds_no_run_and_what_expires_meanwhile_goes(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, _ = await away(make_maintenance_fixture, timedelta(hours=30))
    world.patience = timedelta(hours=40)
    await world.store([memory(20, days_old=1, expires_in_days=0.5)])
    daily = ConsolidationInterval.DAILY
    world.ledger.agents.register(COMPANY, [AGENT], interval=daily)
    run = world.plan_run()
    assert isinstance(await step(world, run.run_id), Deferred)
    world.clock.turn(timedelta(hours=25))

    assert world.ledger.agents.claim_due([COMPANY], interval=daily, limit=9) == (), "its slot has come, and moves on"
    assert isinstance(await step(world, run.run_id), Deferred)

    waiting = world.ledger.runs.list(COMPANY, state=WorkState.WAITING)
    assert [each.run_id for each in waiting] == [run.run_id]
    assert waiting[0].reason is not None
    assert waiting[0].reason.startswith(
        "no answer from the language model since 2026-03-01 02:00 UTC: connection refused"
    )
    assert uid(20) not in await world.live(), "retention does not wait for a model"
    away_now = present(world.ledger.syntheses.away(COMPANY))
    assert (away_now[0], away_now[1] - START < timedelta(seconds=1)) == (1, True)
    await to_the_end(world, run.run_id)
    assert world.ledger.syntheses.away(COMPANY) is None
    world.clock.turn(DAY)
    assert len(world.ledger.agents.claim_due([COMPANY], interval=daily, limit=9)) == 1


@pytest.mark.slow(because="dozens of crashes, each with the run that follows")
async def test_a_crash_at_any_call_while_the_model_is_away_loses_nothing(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, _ = await away(make_maintenance_fixture, timedelta(seconds=90))
    go_back = world.keep()

    async def ask(faults: Faults, run_id: str) -> None:
        world.clock.at = START
        await world.service().run(run_id)
        watched = world.synthesis(faults.backend(world.backend), faults.ledger(world.ledger))
        await watched.ask(run_id, 0)
        world.clock.turn(timedelta(seconds=100))
        assert places_due(world.ledger, run_id, company=COMPANY) == [0, 1]
        await watched.ask(run_id, 0)
        await watched.ask(run_id, 1)
        await world.watched(faults).run(run_id)

    seen = Faults()
    await ask(seen, world.plan_run().run_id)
    assert "syntheses.wait_together" in seen.calls
    for point in crash_points(seen.calls):
        go_back()
        run = world.plan_run()
        with pytest.raises(Crash):
            await ask(Faults(point), run.run_id)
        world.end_lease()

        await to_the_end(world, run.run_id)

        summaries = await world.summaries()
        assert len(summaries) == 2, (point, seen.calls[point])
        assert all("llm-synthesized" in each.entry.metadata.tags for each in summaries), (point, seen.calls[point])
        await world.check_balance()
