"""The evolver's cycles in tick and sweep: one a slot, whoever ticks, and none is lost with a message."""

from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock

from memcore.config.policy import Policy
from memcore.jobs import Done, Skipped
from scheduler.sweep import CYCLES_REDISPATCHED, KEPT_AT_LEAST, REDISPATCH_AFTER, sweep
from scheduler.tick import tick

INTERVALS = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(weeks=1)}


def policy(interval: str = "hourly", *, enabled: bool = True) -> Policy:
    evolver = {"enabled": enabled, "window_days": 7}
    return Policy.model_validate(
        {"memory": {"consolidation": {"interval": interval}, "procedural": {"evolver": evolver}}}
    )


@pytest.mark.parametrize("interval", INTERVALS)
def test_the_first_tick_plans_a_cycle_and_then_there_is_one_for_each_slot(
    job_context: ScriptedContext, clock: StoppedClock, interval: str
) -> None:
    job_context.policy, length = policy(interval), INTERVALS[interval]
    started = clock()
    for _ in range(40):
        assert tick("{}", job_context) == Done(facts={"sent": 0})
        clock.advance(length / 10)
    slots = [each.planned_at for each in job_context.dispatcher.cycles]
    assert len(slots) in {4, 5}
    assert started - length < slots[0] <= started
    assert [later - earlier for earlier, later in pairwise(slots)] == [length] * (len(slots) - 1)
    for each in job_context.dispatcher.cycles:
        assert (each.window_start, each.window_end) == (each.planned_at - timedelta(days=7), each.planned_at)
        assert each.origin == "scheduled"


def test_a_long_downtime_brings_one_cycle(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = policy()
    tick("{}", job_context)
    clock.advance(timedelta(days=3))
    tick("{}", job_context)
    tick("{}", job_context)
    assert len(job_context.dispatcher.cycles) == 2


@pytest.mark.parametrize("asleep", [policy("never"), policy(enabled=False)])
def test_an_evolver_that_is_off_costs_a_tick_nothing(job_context: ScriptedContext, asleep: Policy) -> None:
    assert cycle_statements(job_context, policy()) == 2
    assert cycle_statements(job_context, policy()) == 1, "the slot is planned"
    assert cycle_statements(job_context, asleep) == 0


def cycle_statements(job_context: ScriptedContext, chosen: Policy) -> int:
    job_context.policy, seen = chosen, list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        tick("{}", job_context)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert seen
    return sum("skill_cycles" in statement for statement in seen)


def test_while_all_is_paused_no_cycle_is_planned_and_none_is_dispatched_for(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    job_context.policy = policy()
    tick("{}", job_context)
    (planned,) = job_context.dispatcher.cycles
    job_context.ledger.companies.pause("acme")
    clock.advance(timedelta(days=1))
    assert isinstance(tick("{}", job_context), Skipped)
    sweep("{}", job_context)
    assert job_context.dispatcher.cycles == [planned]
    job_context.ledger.companies.resume("acme")
    sweep("{}", job_context)
    assert job_context.dispatcher.cycles == [planned, planned]


def test_a_cycle_whose_message_was_lost_is_dispatched_for_until_it_is_finished(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    job_context.policy = policy("daily")
    job_context.dispatcher.error = OSError("the broker is away")
    with pytest.raises(OSError, match="away"):
        tick("{}", job_context)
    job_context.dispatcher.error = None
    tick("{}", job_context)
    assert job_context.dispatcher.cycles == [], "its row is there, and the sweep has it"
    for dispatched in range(1, 3):
        clock.advance(REDISPATCH_AFTER + timedelta(seconds=1))
        assert sweep("{}", job_context) == Done(facts={"rung": 1, "expired": 0, "unarchived": 0})
        assert sweep("{}", job_context) == Done(facts={"rung": 0, "expired": 0, "unarchived": 0})
        assert len(job_context.dispatcher.cycles) == dispatched
    job_context.ledger.skill_cycles.finish("acme", job_context.dispatcher.cycles[0].cycle_id, {})
    clock.advance(REDISPATCH_AFTER + timedelta(seconds=1))
    assert sweep("{}", job_context) == Done(facts={"rung": 0, "expired": 0, "unarchived": 0})


def test_many_cycles_that_nobody_finishes_do_not_fill_the_queue(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    job_context.policy = policy()
    for _ in range(2 * CYCLES_REDISPATCHED):
        tick("{}", job_context)
        clock.advance(timedelta(hours=1))
    job_context.dispatcher.cycles.clear()
    sweep("{}", job_context)
    assert len(job_context.dispatcher.cycles) == CYCLES_REDISPATCHED


def test_an_old_cycle_goes_and_its_slot_is_not_planned_again(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = Policy.model_validate(
        {
            "memory": {
                "consolidation": {"interval": "weekly"},
                "procedural": {"evolver": {"enabled": True, "window_days": 1, "keep_days": 1}},
            }
        }
    )
    tick("{}", job_context)
    (first,) = job_context.dispatcher.cycles
    job_context.ledger.skill_cycles.finish("acme", first.cycle_id, {})
    clock.advance(timedelta(days=6))
    sweep("{}", job_context)
    tick("{}", job_context)
    slots = {each.planned_at for each in job_context.dispatcher.cycles}
    assert len(slots) == len(job_context.dispatcher.cycles)
    clock.advance(KEPT_AT_LEAST)
    sweep("{}", job_context)
    assert job_context.ledger.skill_cycles.get("acme", first.cycle_id) is None
