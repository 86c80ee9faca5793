"""Distill job: a finished task from an engine's envelope to a memory, a raw experience and a trajectory."""

import concurrent.futures
from datetime import timedelta

from memcore.distillation.capture import Capture
from memcore.intake import Written
from memcore.jobs.distill_payload import DistillPayload
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome, Retry
from memcore.jobs.payloads import StoreItem
from memcore.jobs.queues import Queue
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before it is tried again: store and database are back within seconds of a crash.
_RETRY_DELAY = timedelta(seconds=5)

_LIMITS = Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=200)


@opens(DistillPayload, retry_after=_RETRY_DELAY)
def distill(job: DistillPayload, crew: Crew) -> Outcome:
    """Capture the trace once, however often its message comes."""

    def store(item: StoreItem) -> Written:
        return crew.desk.submit([item]).result(timeout=_LIMITS.soft.total_seconds())

    try:
        return Capture(crew.ledger, store, level=crew.policy.memory.level).take(job)
    except concurrent.futures.TimeoutError:
        return Retry(reason="the desk did not answer in time", delay=_RETRY_DELAY)


DISTILL = Job(name=TaskName.DISTILL, queue=Queue.DISTILL, limits=_LIMITS, run=distill)
