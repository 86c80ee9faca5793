"""The evolver's cycles in the sweep: one a slot, however often it runs, and none is lost with a message."""

from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock, finish_cycle

from memcore.config.policy import Policy
from memcore.jobs import Done
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.work_items import REDISPATCH_AFTER
from scheduler.expire import KEPT_AT_LEAST, expire
from scheduler.sweep import plan_cycles, sweep
from workers.celery_task import perform


def cycles(job_context: ScriptedContext) -> list[Cycle]:
    """Return the cycles that were dispatched, in order."""
    found = [job_context.ledger.skill_cycles.get("acme", item.key) for item in job_context.dispatcher.items]
    return [each for each in found if each is not None]


INTERVALS = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(weeks=1)}


def policy(interval: str = "hourly", *, enabled: bool = True) -> Policy:
    evolver = {"enabled": enabled, "window_days": 7}
    return Policy.model_validate(
        {"memory": {"consolidation": {"interval": interval}, "procedural": {"evolver": evolver}}}
    )


@pytest.mark.parametrize("interval", INTERVALS)
def test_the_first_sweep_plans_a_cycle_and_then_there_is_one_for_each_slot(
    job_context: ScriptedContext, clock: StoppedClock, interval: str
) -> None:
    job_context.policy, length = policy(interval), INTERVALS[interval]
    started = clock()
    for _ in range(40):
        plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
        clock.advance(length / 10)
    slots = [each.planned_at for each in cycles(job_context)]
    assert len(slots) in {4, 5}
    assert started - length < slots[0] <= started
    assert [later - earlier for earlier, later in pairwise(slots)] == [length] * (len(slots) - 1)
    for each in cycles(job_context):
        assert (each.window_start, each.window_end) == (each.planned_at - timedelta(days=7), each.planned_at)
        assert each.origin == "scheduled"


def test_a_long_downtime_brings_one_cycle(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = policy()
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    clock.advance(timedelta(days=3))
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    assert len(cycles(job_context)) == 2


@pytest.mark.parametrize("asleep", [policy("never"), policy(enabled=False)])
def test_a_sweep_asks_once_for_all_companies_and_not_at_all_where_the_evolver_is_off(
    job_context: ScriptedContext, asleep: Policy
) -> None:
    for company in ("bolt", "cog"):
        job_context.ledger.companies.register(company)
    assert cycle_statements(job_context, policy()) == 2
    assert sorted(item.company for item in job_context.dispatcher.items) == ["acme", "bolt", "cog"]
    assert cycle_statements(job_context, policy()) == 1, "the slots are planned"
    job_context.ledger.companies.register("dyn")
    assert cycle_statements(job_context, policy()) == 2, "one slot is not"
    assert job_context.dispatcher.items[-1].company == "dyn"
    assert cycle_statements(job_context, asleep) == 0


def cycle_statements(job_context: ScriptedContext, chosen: Policy) -> int:
    job_context.policy, seen = chosen, list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert seen
    return sum("skill_cycles" in statement for statement in seen)


def test_while_all_is_paused_no_cycle_is_planned(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = policy()
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    job_context.ledger.companies.pause("acme")
    clock.advance(timedelta(days=1))
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    assert len(job_context.ledger.skill_cycles.page("acme")) == 1


def test_a_cycle_whose_message_was_lost_is_dispatched_for_until_it_is_finished(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    job_context.policy = policy("daily")
    job_context.dispatcher.error = OSError("the broker is away")
    with pytest.raises(OSError, match="away"):
        plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    job_context.dispatcher.error = None
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    assert cycles(job_context) == [], "its row is there, and the sweep has it"
    for dispatched, wait in enumerate((REDISPATCH_AFTER, REDISPATCH_AFTER, 2 * REDISPATCH_AFTER), start=1):
        clock.advance(wait)
        assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 1})
        assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 0})
        assert len(cycles(job_context)) == dispatched
    finish_cycle(job_context.ledger, "acme", cycles(job_context)[0].cycle_id, {})
    clock.advance(8 * REDISPATCH_AFTER)
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 0})


def test_an_old_cycle_goes_and_its_slot_is_not_planned_again(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = Policy.model_validate(
        {
            "memory": {
                "consolidation": {"interval": "weekly"},
                "procedural": {"evolver": {"enabled": True, "window_days": 1, "keep_days": 1}},
            }
        }
    )
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    (first,) = cycles(job_context)
    finish_cycle(job_context.ledger, "acme", first.cycle_id, {})
    clock.advance(timedelta(days=6))
    perform(expire, "{}", job_context)
    plan_cycles(job_context, job_context.policies.served(job_context.ledger.companies))
    assert job_context.ledger.skill_cycles.get("acme", first.cycle_id) is not None
    clock.advance(KEPT_AT_LEAST)
    perform(expire, "{}", job_context)
    assert job_context.ledger.skill_cycles.get("acme", first.cycle_id) is None
