"""The evolver's cycles in tick and sweep: one a slot, whoever ticks, and none is lost with a message."""

from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.job_contexts import ScriptedCrew
from support.ledger_records import StoppedClock

from memcore.config.policy import Policy
from memcore.jobs.outcomes import Done, Skipped
from scheduler.sweep import CYCLES_RUNG, KEPT_AT_LEAST, UNHEARD_TOO_LONG, sweep
from scheduler.tick import tick

INTERVALS = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(weeks=1)}


def policy(interval: str = "hourly", *, enabled: bool = True) -> Policy:
    evolver = {"enabled": enabled, "window_days": 7}
    return Policy.model_validate(
        {"memory": {"consolidation": {"interval": interval}, "procedural": {"evolver": evolver}}}
    )


@pytest.mark.parametrize("interval", INTERVALS)
def test_the_first_tick_plans_a_cycle_and_then_there_is_one_for_each_slot(
    crew: ScriptedCrew, clock: StoppedClock, interval: str
) -> None:
    crew.policy, length = policy(interval), INTERVALS[interval]
    started = clock()
    for _ in range(40):
        assert tick("{}", crew) == Done(facts={"sent": 0})
        clock.advance(length / 10)
    slots = [each.planned_at for each in crew.bell.cycles]
    assert len(slots) in {4, 5}
    assert started - length < slots[0] <= started
    assert [later - earlier for earlier, later in pairwise(slots)] == [length] * (len(slots) - 1)
    for each in crew.bell.cycles:
        assert (each.window_start, each.window_end) == (each.planned_at - timedelta(days=7), each.planned_at)
        assert each.origin == "scheduled"


def test_a_long_downtime_brings_one_cycle(crew: ScriptedCrew, clock: StoppedClock) -> None:
    crew.policy = policy()
    tick("{}", crew)
    clock.advance(timedelta(days=3))
    tick("{}", crew)
    tick("{}", crew)
    assert len(crew.bell.cycles) == 2


@pytest.mark.parametrize("asleep", [policy("never"), policy(enabled=False)])
def test_an_evolver_that_is_off_costs_a_tick_nothing(crew: ScriptedCrew, asleep: Policy) -> None:
    assert cycle_statements(crew, policy()) == 2
    assert cycle_statements(crew, policy()) == 1, "the slot is planned"
    assert cycle_statements(crew, asleep) == 0


def cycle_statements(crew: ScriptedCrew, chosen: Policy) -> int:
    crew.policy, seen = chosen, list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        tick("{}", crew)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert seen
    return sum("skill_cycles" in statement for statement in seen)


def test_while_all_is_paused_no_cycle_is_planned_and_none_is_rung_for(crew: ScriptedCrew, clock: StoppedClock) -> None:
    crew.policy = policy()
    tick("{}", crew)
    (planned,) = crew.bell.cycles
    crew.ledger.switches.pause("acme")
    clock.advance(timedelta(days=1))
    assert isinstance(tick("{}", crew), Skipped)
    sweep("{}", crew)
    assert crew.bell.cycles == [planned]
    crew.ledger.switches.resume("acme")
    sweep("{}", crew)
    assert crew.bell.cycles == [planned, planned]


def test_a_cycle_whose_message_was_lost_is_rung_for_until_it_is_finished(
    crew: ScriptedCrew, clock: StoppedClock
) -> None:
    crew.policy = policy("daily")
    crew.bell.error = OSError("the broker is away")
    with pytest.raises(OSError, match="away"):
        tick("{}", crew)
    crew.bell.error = None
    tick("{}", crew)
    assert crew.bell.cycles == [], "its row is there, and the sweep has it"
    for rung in range(1, 3):
        clock.advance(UNHEARD_TOO_LONG + timedelta(seconds=1))
        assert sweep("{}", crew) == Done(facts={"rung": 1, "expired": 0, "unarchived": 0})
        assert sweep("{}", crew) == Done(facts={"rung": 0, "expired": 0, "unarchived": 0})
        assert len(crew.bell.cycles) == rung
    crew.ledger.skill_cycles.finish("acme", crew.bell.cycles[0].cycle_id, {})
    clock.advance(UNHEARD_TOO_LONG + timedelta(seconds=1))
    assert sweep("{}", crew) == Done(facts={"rung": 0, "expired": 0, "unarchived": 0})


def test_many_cycles_that_nobody_finishes_do_not_fill_the_queue(crew: ScriptedCrew, clock: StoppedClock) -> None:
    crew.policy = policy()
    for _ in range(2 * CYCLES_RUNG):
        tick("{}", crew)
        clock.advance(timedelta(hours=1))
    crew.bell.cycles.clear()
    sweep("{}", crew)
    assert len(crew.bell.cycles) == CYCLES_RUNG


def test_an_old_cycle_goes_and_its_slot_is_not_planned_again(crew: ScriptedCrew, clock: StoppedClock) -> None:
    crew.policy = Policy.model_validate(
        {
            "memory": {
                "consolidation": {"interval": "weekly"},
                "procedural": {"evolver": {"enabled": True, "window_days": 1, "keep_days": 1}},
            }
        }
    )
    tick("{}", crew)
    (first,) = crew.bell.cycles
    crew.ledger.skill_cycles.finish("acme", first.cycle_id, {})
    clock.advance(timedelta(days=6))
    sweep("{}", crew)
    tick("{}", crew)
    slots = {each.planned_at for each in crew.bell.cycles}
    assert len(slots) == len(crew.bell.cycles)
    clock.advance(KEPT_AT_LEAST)
    sweep("{}", crew)
    assert crew.ledger.skill_cycles.get("acme", first.cycle_id) is None
