"""Store job, which writes an engine's memories; use job, which counts their uses; query job, which keeps questions."""

import concurrent.futures
from collections.abc import Sequence
from datetime import timedelta

from memcore.ingest import WriteResult
from memcore.jobs import Dead, Done, Outcome, QueryPayload, Retry, Skipped, StoreItem, StorePayload, UsePayload
from memcore.models.memory import refusal
from tasks.context import JobContext
from tasks.job import COUNT_LIMITS, COUNT_RETRY_DELAY, WRITE_LIMITS, job

#: Wait before a retry: the store server is back within seconds of a crash.
_RETRY_DELAY = timedelta(seconds=1)


@job(StorePayload, WRITE_LIMITS, retry_after=_RETRY_DELAY)
def write(payload: StorePayload, job_context: JobContext) -> Outcome:
    """Submit the memories to the batch writer and wait until they are durable and searchable."""
    try:
        written = job_context.batch_writer.submit(payload.items).result(timeout=WRITE_LIMITS.soft.total_seconds())
    except concurrent.futures.TimeoutError:
        return Retry(reason="the batch writer did not answer in time", delay=_RETRY_DELAY)
    return _outcome(payload.items, written)


def _outcome(items: Sequence[StoreItem], written: WriteResult) -> Outcome:
    if written.refused:
        # A dead letter keeps the whole job, to be replayed once ids or level are corrected; nothing is written twice.
        field = min(written.refused.values())
        return Dead(reason=f"{len(written.refused)} of {len(items)} memories: {field} {refusal(field)}")
    counts = {
        name: sum(item.id in ids for item in items)
        for name, ids in (("stored", written.stored), ("buried", written.tombstoned), ("skipped", written.skipped))
    }
    if counts["skipped"] == len(items):
        return Skipped(reason="level none: no memories are kept for this agent")
    counts["unknown_supersedes"] = sum(written.of(items).unknown_supersedes.values())
    always = {"stored", "buried"}
    return Done(facts={name: count for name, count in counts.items() if count or name in always})


@job(UsePayload, COUNT_LIMITS, retry_after=COUNT_RETRY_DELAY)
def count(payload: UsePayload, job_context: JobContext) -> Outcome:
    """Count the batch once, however often its message comes."""
    counted = job_context.ledger.uses.count(payload.company, payload.batch_id, payload.uses)
    return Done(facts={"counted": counted, "passed_over": len(payload.uses) - counted})


@job(QueryPayload, COUNT_LIMITS, retry_after=COUNT_RETRY_DELAY, is_repeated=True)
def record_queries(payload: QueryPayload, job_context: JobContext) -> Outcome:
    """Keep the questions while the policy says so: an engine may have read an older one."""
    if not job_context.policy.memory.retrieval.record_queries:
        return Skipped(reason="the policy keeps no questions (memory.retrieval.record_queries)")
    job_context.ledger.recorded_queries.record(payload.company, payload.queries)
    return Done(facts={"recorded": len(payload.queries)})
