"""Sweep: ring again for what was lost with a message or a worker, and let go of what was kept long enough."""

from datetime import timedelta

from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.payloads import LessonPayload
from memcore.jobs.queues import Queue, TaskName
from memcore.ledger.agents import last_slot
from memcore.models.memory import ConsolidationInterval
from tasks.context import Crew
from tasks.job import Job, Limits

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


#: How long a lesson may go undrawn before its message counts as lost; ringing twice is harmless.
UNDRAWN_TOO_LONG = timedelta(minutes=2)

#: Lessons rung for in one sweep at most: a model is slow, and those of a long queue must not be sent over and over.
LESSONS_RUNG = 200


def tend_lessons(crew: Crew) -> int:
    """Let go of old lessons and of what they were drawn from, ring for lost ones, and return how many those were."""
    config, company = crew.policy.memory.procedural, crew.company
    over = crew.clock() - timedelta(days=config.evolver.keep_days)
    crew.ledger.trajectories.expire(company, before=over)
    crew.ledger.lessons.expire(company, before=over)
    crew.ledger.skills.expire_applications(company, before=over)
    if crew.model is None or not config.enabled or crew.ledger.switches.paused(company):
        return 0  # nobody would draw them
    lost = crew.ledger.lessons.waiting(company, rung_before=UNDRAWN_TOO_LONG, limit=LESSONS_RUNG)
    crew.bell.ring_lessons(
        LessonPayload(company=company, agent_id=each.agent_id, lesson_id=each.lesson_id) for each in lost
    )
    return len(lost)


#: How long a run may wait unclaimed before its message counts as lost; ringing twice is harmless.
QUEUED_TOO_LONG = timedelta(minutes=2)

#: How long a reindex may wait for its next slice before that message counts as lost.
REINDEX_UNHEARD = timedelta(seconds=30)

#: The same for the next stage of a fine-tune run; its worker may be started only when somebody needs it.
FINETUNE_UNHEARD = timedelta(minutes=5)

#: Runs rung for in one sweep at most.
SWEEP_BATCH = 1_000


def sweep(_payload: str, crew: Crew) -> Outcome:
    """Ring for stale runs, and let go of what is over; whoever holds a run makes a second message do nothing."""
    for run_id in crew.ledger.syntheses.revive(crew.company):
        crew.ledger.runs.wake(run_id)
    stale = crew.ledger.runs.stale(crew.company, queued_for=QUEUED_TOO_LONG, limit=SWEEP_BATCH)
    crew.bell.ring_many(stale)
    crew.ledger.runs.rung([run.run_id for run in stale])
    rung = len(stale) + tend_cycles(crew) + tend_lessons(crew)
    if crew.ledger.reindexes.waiting(crew.company, rung_before=REINDEX_UNHEARD):
        crew.bell.ring_reindex(crew.company)
    finetune = crew.ledger.finetune_runs.waiting(crew.company, rung_before=FINETUNE_UNHEARD)
    if finetune is not None:
        crew.bell.ring_finetune(crew.company, finetune)
    crew.ledger.syntheses.forget(crew.company)
    policy, now = crew.policy.memory.consolidation, crew.clock()
    over = now - timedelta(days=policy.journal_days)
    crew.ledger.answers.expire(crew.company, before=over)
    expired = crew.ledger.journal.expire(crew.company, before=over)
    keep_days = policy.archival.keep_days
    unarchived = crew.ledger.archive.expire(
        crew.company,
        # What came back is kept as long as the run that brought it back can be undone.
        returned_before=over,
        before=None if keep_days is None else now - timedelta(days=keep_days),
    )
    # Last: it speaks to the store, and trouble there must not keep lost runs waiting.
    crew.tend_approvals()
    crew.tend_org()
    return Done(facts={"rung": rung, "expired": expired, "unarchived": unarchived})


SWEEP = Job(
    name=TaskName.SWEEP,
    queue=Queue.CONTROL,
    limits=Limits(soft=timedelta(seconds=50), hard=timedelta(seconds=55), attempts=1),
    is_repeated=True,
    run=sweep,
)
