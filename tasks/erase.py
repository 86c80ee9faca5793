"""Erasure job: an agent, or a person of its conversations, goes for good."""

from memcore.erasure.service import ErasureService
from memcore.jobs import ErasePayload, Outcome
from tasks.context import JobContext
from tasks.job import LONG_LIMITS, job


@job(ErasePayload, LONG_LIMITS, needs=ErasureService, is_repeated=True)
def erase(payload: ErasePayload, service: ErasureService, job_context: JobContext) -> Outcome:
    """Carry the erasure out, or go on with it; its row decides, the message only triggers."""
    return job_context.run(service.run(payload.erasure_id, retire=payload.retire_checkpoints))
