"""Store job: memories from an engine's envelope to the store."""

import concurrent.futures
from collections.abc import Sequence
from datetime import timedelta

from pydantic import ValidationError

from memcore.errors import MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name
from memcore.intake import Written
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Dead, Done, Outcome, Retry, Skipped
from memcore.jobs.payloads import StoreItem, StorePayload, is_newer
from memcore.jobs.queues import Queue
from memcore.levels import refusal
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.newer import wait_for_newer_worker

#: Wait before a store is tried again: the store server is back within seconds of a crash.
_RETRY_DELAY = timedelta(seconds=2)

_LIMITS = Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=200)


def write(payload: str, crew: Crew) -> Outcome:  # noqa: PLR0911  # one for each way that it can end
    """Hand the memories to the desk and wait until they are durable and can be found."""
    try:
        job = StorePayload.model_validate_json(payload)
    except ValidationError as error:
        if is_newer(payload):
            return wait_for_newer_worker()
        return Dead(reason=str(MemoryInputError.of(error)))
    if job.company != crew.company:
        return Dead(reason="company: this worker serves another company")
    try:
        written = crew.desk.submit(job.items).result(timeout=_LIMITS.soft.total_seconds())
    except concurrent.futures.TimeoutError:
        return Retry(reason="the desk did not answer in time", delay=_RETRY_DELAY)
    except MemoryError as error:
        if error.is_retryable:
            return Retry(reason=type(error).__name__, delay=_RETRY_DELAY)
        return Dead(reason=type(error).__name__)
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
