"""Store job: memories from an engine's envelope to the store."""

import concurrent.futures
from collections.abc import Sequence
from datetime import timedelta

from memcore.intake import Written
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Dead, Done, Outcome, Retry, Skipped
from memcore.jobs.payloads import StoreItem, StorePayload
from memcore.jobs.queues import Queue
from memcore.levels import refusal
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.opening import opens

#: Wait before a store is tried again: the store server is back within seconds of a crash.
_RETRY_DELAY = timedelta(seconds=2)

_LIMITS = Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=200)


@opens(StorePayload, retry_after=_RETRY_DELAY)
def write(job: StorePayload, crew: Crew) -> Outcome:
    """Hand the memories to the desk and wait until they are durable and can be found."""
    try:
        written = crew.desk.submit(job.items).result(timeout=_LIMITS.soft.total_seconds())
    except concurrent.futures.TimeoutError:
        return Retry(reason="the desk did not answer in time", delay=_RETRY_DELAY)
    return _outcome(job.items, written)


def _outcome(items: Sequence[StoreItem], written: Written) -> Outcome:
    if written.refused:
        # A dead letter keeps the whole job: once ids or level are mended, it is replayed, and writes nothing twice.
        field = min(written.refused.values())
        return Dead(reason=f"{len(written.refused)} of {len(items)} memories: {field} {refusal(field)}")
    counts = {
        name: sum(item.id in getattr(written, name) for item in items) for name in ("stored", "buried", "skipped")
    }
    if counts["skipped"] == len(items):
        return Skipped(reason="level none: no memories are kept for this agent")
    return Done(facts={name: count for name, count in counts.items() if count or name != "skipped"})


STORE = Job(name=TaskName.STORE, queue=Queue.STORE, limits=_LIMITS, run=write)
