"""Lessons that wait for a model: rung for again when their message was lost, and forgotten when they are old."""

from datetime import timedelta

from memcore.jobs.skill_payloads import LessonPayload
from tasks.crew import Crew

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
