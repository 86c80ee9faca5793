"""Distill job: turns a finished task's trace into a memory, a raw experience and a trajectory."""

import concurrent.futures
import logging
from datetime import timedelta

from memcore.distillation import Capture
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ingest import WriteResult
from memcore.jobs import DistillPayload, Done, Outcome, Retry, StoreItem
from memcore.telemetry.events import Event
from tasks.context import JobContext
from tasks.job import WRITE_LIMITS, job

#: Wait before it is tried again: store and database are back within seconds of a crash.
_RETRY_DELAY = timedelta(seconds=5)

_log = logging.getLogger("memtend.jobs")


@job(DistillPayload, WRITE_LIMITS, retry_after=_RETRY_DELAY)
def distill(payload: DistillPayload, job_context: JobContext) -> Outcome:
    """Capture the trace once, however often its message comes, and dispatch the job for its lesson, if it has one."""

    def store(item: StoreItem) -> WriteResult:
        return job_context.batch_writer.submit([item]).result(timeout=WRITE_LIMITS.soft.total_seconds())

    memory = job_context.policy.memory
    capture = Capture(
        job_context.ledger,
        store,
        level=memory.level,
        procedural=None if job_context.model is None else memory.procedural,
        clock=job_context.clock,
    )
    try:
        outcome = capture.take(payload)
    except concurrent.futures.TimeoutError:
        return Retry(reason="the batch writer did not answer in time", delay=_RETRY_DELAY)
    if isinstance(outcome, Done) and outcome.facts.get("lessons"):
        try:
            job_context.dispatcher.dispatch([job_context.ledger.lessons.item(payload.company, payload.trace_id)])
        except MemoryError as error:
            # The sweep dispatches the row.
            _log.warning(
                Event.DISTILL_LESSON_WAITS, extra={"agent_id": payload.agent_id, "error": type(error).__name__}
            )
    return outcome
