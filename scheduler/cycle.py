"""Cycles of the skill evolver: planned once a slot, and rung for again when a message was lost."""

from datetime import timedelta

from memcore.ledger.slots import last_slot
from memcore.models import ConsolidationInterval
from tasks.crew import Crew

#: How long a cycle may go unfinished before its message counts as lost; ringing twice is harmless.
UNHEARD_TOO_LONG = timedelta(minutes=10)

#: Cycles rung for in one sweep at most: some that fail again and again must not fill the queue.
CYCLES_RUNG = 3

#: How long a cycle's row is kept at least: a slot whose row has gone would be planned again.
KEPT_AT_LEAST = timedelta(weeks=2)


def plan_cycle(crew: Crew) -> None:
    """Plan the cycle of the slot that has begun, once, and ring for it.

    After a long downtime that is one cycle, not one for each slot that was missed.
    """
    config, interval = crew.policy.memory.procedural.evolver, crew.policy.memory.consolidation.interval
    if not config.enabled or interval is ConsolidationInterval.NEVER:
        return
    planned = crew.ledger.skill_cycles.plan(
        crew.company,
        origin="scheduled",
        planned_at=last_slot(crew.company, interval, crew.clock()),
        window=timedelta(days=config.window_days),
    )
    if planned is not None:  # committed by now: a message lost from here on is found by the sweep
        crew.bell.ring_cycles(crew.company, [planned])


def tend_cycles(crew: Crew) -> int:
    """Ring again for cycles that nobody has finished, let go of old ones, and return how many were rung for."""
    cycles, config = crew.ledger.skill_cycles, crew.policy.memory.procedural.evolver
    cycles.expire(crew.company, before=crew.clock() - max(timedelta(days=config.keep_days), KEPT_AT_LEAST))
    if crew.ledger.switches.paused(crew.company):
        return 0  # their messages would only be parked again
    lost = cycles.waiting(crew.company, rung_before=UNHEARD_TOO_LONG, limit=CYCLES_RUNG)
    crew.bell.ring_cycles(crew.company, lost)
    return len(lost)
