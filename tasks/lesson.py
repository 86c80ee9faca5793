"""Lesson job: a model is asked what a finished task teaches, and the answer becomes a memory."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome
from memcore.jobs.queues import Queue
from memcore.jobs.skill_payloads import LessonPayload
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(LessonPayload, retry_after=_RETRY_DELAY)
def draw(job: LessonPayload, crew: Crew) -> Outcome:
    """Draw the lesson; its row in the ledger says whether that is still to be done."""
    return crew.draw_lesson(job.lesson_id)


DRAW = Job(
    name=TaskName.DRAW,
    queue=Queue.SYNTHESIS,
    limits=Limits(soft=timedelta(minutes=50), hard=timedelta(minutes=55), attempts=5),
    is_repeated=True,
    run=draw,
)
