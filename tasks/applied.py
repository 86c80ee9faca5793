"""Applied job: an agent did as a skill says, added to what the ledger knows of that skill."""

from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.queues import Queue
from memcore.jobs.skill_payloads import AppliedPayload
from memcore.skills.application import count_application
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before it is counted again: nobody waits for it, and a database that was away is back by then.
_RETRY_DELAY = timedelta(seconds=30)


@opens(AppliedPayload, retry_after=_RETRY_DELAY)
def count(job: AppliedPayload, crew: Crew) -> Outcome:
    """Count the application once, however often its message comes."""
    is_new = count_application(crew.ledger, job)
    return Done(facts={"counted": int(is_new), "passed_over": int(not is_new)})


APPLIED = Job(
    name=TaskName.APPLIED,
    queue=Queue.CONTROL,
    limits=Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=20),
    run=count,
)
