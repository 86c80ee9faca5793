"""Learning jobs: extract a task's lesson, run a cycle of the skill evolver, count the application of a skill."""

from datetime import timedelta

from memcore.jobs.outcomes import Deferred, Done, Outcome, Snooze
from memcore.jobs.payloads import AppliedPayload, EvolvePayload, LessonPayload, TaskName
from memcore.skills.publication import count_application
from tasks.context import JobContext
from tasks.job import COUNT_LIMITS, LONG_LIMITS, as_job

#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@as_job(TaskName.DRAW, LessonPayload, LONG_LIMITS, retry_after=_RETRY_DELAY, is_repeated=True)
def extract_lesson(job: LessonPayload, job_context: JobContext) -> Outcome:
    """Extract the lesson, unless its row in the ledger says that it is done."""
    return job_context.extract_lesson(job.lesson_id)


@as_job(TaskName.EVOLVE, EvolvePayload, LONG_LIMITS, retry_after=_RETRY_DELAY, is_repeated=True)
def evolve(job: EvolvePayload, job_context: JobContext) -> Outcome:
    """Create the cycle's row if it is missing, then carry it out; the row decides, the message only triggers."""
    window = timedelta(days=job_context.policy.memory.procedural.evolver.window_days)
    job_context.ledger.skill_cycles.plan(job.company, origin=job.origin, planned_at=job.planned_at, window=window)
    outcome = job_context.evolve(job.cycle_id)
    # The sweep dispatches the row once maintenance goes on.
    return Deferred(reason=outcome.reason) if isinstance(outcome, Snooze) else outcome


#: Wait before a retry: nobody waits for the count, and a database that was down is back by then.
_APPLIED_RETRY_DELAY = timedelta(seconds=30)


@as_job(TaskName.APPLIED, AppliedPayload, COUNT_LIMITS, retry_after=_APPLIED_RETRY_DELAY)
def count(job: AppliedPayload, job_context: JobContext) -> Outcome:
    """Count the application once, however often its message comes."""
    is_new = count_application(job_context.ledger, job)
    return Done(facts={"counted": int(is_new), "passed_over": int(not is_new)})
